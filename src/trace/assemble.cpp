// From what was told to a timeline: commands in the order of their calls, with what each had to wait for.
#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <weir/observer.hpp>

#include "trace/collective_order.hpp"
#include "trace/collectives.hpp"
#include "trace/graph_edges.hpp"
#include "trace/session.hpp"

namespace weir::trace {

namespace {

using Kind = TapeRecord::Kind;

/// A command with where on the tape it is: what follows it there belongs to it.
struct CommandTold {
  const TapeRecord* record;
  const TapeRecord* end;  ///< of its thread's list
};

class Assembler {
 public:
  explicit Assembler(const Told& told) : told_(told) {}

  Timeline make() {
    made_.texts = told_.tape.texts;
    made_.dropped = told_.tape.dropped;
    made_.duration = told_.stopped - told_.started;
    collect();
    add_streams();
    for (const CommandTold& one : commands_) add_command(one);
    join_spans();
    add_nodes();
    add_waits();
    add_ranges();
    made_.clock = clock_text(made_, told_, !clocks_.empty());
    if (made_.dropped > 0) {
      made_.note = std::to_string(made_.dropped) +
                   " commands were dropped, the oldest first: the session's limit of memory was reached";
    }
    return std::move(made_);
  }

 private:
  std::int64_t moment(std::int64_t steady) const { return steady - told_.started; }
  Text text(const std::string& words) {
    if (own_texts_.empty()) {
      for (Text i = 0; i < made_.texts.size(); ++i) own_texts_.emplace(made_.texts[i], i);
    }
    const auto [at, is_new] = own_texts_.try_emplace(words, static_cast<Text>(made_.texts.size()));
    if (is_new) made_.texts.push_back(words);
    return at->second;
  }

  void collect() {
    std::vector<std::uint64_t> refused;
    for (const std::vector<TapeRecord>& thread : told_.tape.threads) {
      for (const TapeRecord& one : thread) {
        if (one.kind == Kind::refused) refused.push_back(one.id);
        if (one.kind == Kind::ran) {
          ran_.push_back(&one);
          any_virtual_ = any_virtual_ || one.flag;
        }
        if (one.kind == Kind::wait) waits_.push_back(&one);
        if (one.kind == Kind::node) nodes_.push_back(&one);
      }
    }
    std::sort(refused.begin(), refused.end());
    for (const std::vector<TapeRecord>& thread : told_.tape.threads) {
      for (const TapeRecord& one : thread) {
        const bool is = one.kind == Kind::command && !std::binary_search(refused.begin(), refused.end(), one.id);
        if (is) commands_.push_back({&one, thread.data() + thread.size()});
      }
    }
    std::stable_sort(commands_.begin(), commands_.end(),
                     [](const CommandTold& a, const CommandTold& b) { return a.record->begin < b.record->begin; });
    std::sort(ran_.begin(), ran_.end(), [](const TapeRecord* a, const TapeRecord* b) { return a->id < b->id; });
  }

  void add_streams() {
    std::vector<std::uint64_t> used;
    for (const CommandTold& one : commands_) used.push_back(one.record->stream);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    std::vector<std::pair<std::string, std::uint64_t>> order;  // by device
    for (const std::uint64_t id : used) {
      const auto known = told_.streams.find(id);
      order.emplace_back(known == told_.streams.end() ? "unknown" : known->second.device, id);
    }
    std::sort(order.begin(), order.end());
    for (const auto& [device, id] : order) {
      const auto known = told_.streams.find(id);
      const KnownStream stream = known == told_.streams.end() ? KnownStream() : known->second;
      if (made_.devices.empty() || made_.text(made_.devices.back()) != device) made_.devices.push_back(text(device));
      std::string name = stream.name;
      if (name.empty() || name == std::to_string(id)) name = "stream " + std::to_string(id);
      streams_.emplace(id, static_cast<std::uint32_t>(made_.streams.size()));
      made_.streams.push_back({text(name), id, static_cast<std::uint32_t>(made_.devices.size() - 1), stream.priority,
                               stream.blocking, stream.legacy});
    }
    last_.assign(made_.streams.size(), none);
  }

  void add_command(const CommandTold& one) {
    const TapeRecord& told = *one.record;
    const auto place = static_cast<std::uint32_t>(made_.commands.size());
    Command command;
    command.id = told.id;
    command.name = told.name;
    command.file = told.file;
    command.line = told.line;
    command.arguments = told.arguments;
    command.stream = streams_.at(told.stream);
    command.thread = told.thread;
    command.lane = told.lane;
    command.pageable = told.flag;
    command.call = moment(told.begin);
    command.first_dependency = static_cast<std::uint32_t>(made_.dependencies.size());
    depend(command, last_[command.stream], Tie::stream_order);
    const bool frees = is_order(told, OrderKind::free);
    if (const auto barrier = barriers_.find(command.stream); !frees && barrier != barriers_.end()) {
      depend(command, barrier->second, Tie::default_stream);
      barriers_.erase(barrier);
    }
    if (told.lane == Lane::order || told.lane == Lane::memory) {
      add_order(told, place, command);
    } else {
      command.bytes = told.a;
      command.elements = told.lane == Lane::graph ? 0 : told.b;
      if (told.lane == Lane::graph) {
        command.name = text("graph " + std::to_string(told.b));
        launches_.emplace(told.id, Launch{place, told.b});
        const auto [last, is_first] = last_launches_.try_emplace(told.b, place);
        if (!is_first) depend(command, std::exchange(last->second, place), Tie::replay);
      }
    }
    const TapeRecord* next = one.record + 1;
    if (next != one.end && next->kind == Kind::collective && next->id == told.id) {
      add_collective(*next++, made_.text(told.name), place, command.stream);
    }
    add_implied_order(told, next, one.end, command);
    if (!frees) last_[command.stream] = place;  // the stream goes on before the memory's end
    made_.commands.push_back(command);
  }
  static bool is_order(const TapeRecord& told, OrderKind kind) {
    return (told.lane == Lane::order || told.lane == Lane::memory) && told.what == static_cast<std::uint8_t>(kind);
  }

  /// By the rules of default streams, by the use of memory that ends or is exported, and by collectives.
  void add_implied_order(const TapeRecord& told, const TapeRecord* at, const TapeRecord* end, Command& command) {
    std::vector<std::uint32_t> streams;
    for (; at != end && at->kind == Kind::behind && at->id == told.id; ++at) {
      const auto stream = streams_.find(at->a);
      if (stream != streams_.end()) streams.push_back(stream->second);
    }
    const bool frees = is_order(told, OrderKind::free), waits = is_order(told, OrderKind::behind);
    // The parts of a collective wait for each other, and what follows them for the part of its stream alone.
    if (waits && collective_order_.takes(command.stream, streams)) return;
    for (const std::uint32_t stream : streams) {
      depend(command, last_[stream], frees || waits ? Tie::memory : Tie::default_stream);
      // That the stream comes behind the legacy one is told once: here.
      const bool barrier = frees && made_.streams[stream].legacy && made_.streams[command.stream].blocking;
      if (barrier && last_[stream] != none) barriers_[command.stream] = last_[stream];
    }
  }

  void add_collective(const TapeRecord& told, std::string_view call, std::uint32_t place, std::uint32_t stream) {
    const auto next = static_cast<std::uint32_t>(communicators_.size() + 1);
    const auto rank = static_cast<std::int32_t>(told.line);
    const std::int32_t peer = static_cast<std::int32_t>(told.stream) - 1;
    CollectivePart part{
        place, 0, communicators_.try_emplace(told.a, next).first->second, rank, static_cast<std::int32_t>(told.thread),
        peer};
    if (told.flag) {
      part.shared = told.a;
      part.number = told.b;
    }
    part.collective = collectives_.of(call, told.a, told.b, rank, peer);
    made_.collectives.push_back(part);
    collective_order_.add(part.collective, stream);
  }

  void add_order(const TapeRecord& told, std::uint32_t place, Command& command) {
    static constexpr const char* words[] = {"record", "wait", "wait", "alloc", "free"};
    command.name = text(words[told.what]);
    switch (static_cast<OrderKind>(told.what)) {
      case OrderKind::record:
        command.event = event(told.a);
        records_[told.a][told.b] = place;
        break;
      case OrderKind::wait: {
        command.event = event(told.a);
        const auto numbers = records_.find(told.a);
        if (numbers == records_.end()) break;
        const auto record = numbers->second.find(told.b);
        if (record != numbers->second.end()) depend(command, record->second, Tie::event);
        break;
      }
      case OrderKind::behind: break;
      case OrderKind::alloc: {
        command.bytes = told.b;
        const auto freed = freed_.find(told.a);
        if (freed == freed_.end()) break;
        if (made_.commands[freed->second].stream != command.stream) depend(command, freed->second, Tie::memory);
        freed_.erase(freed);
        break;
      }
      case OrderKind::free:
        command.bytes = told.b;
        freed_[told.a] = place;
        break;
    }
  }

  std::uint32_t event(std::uint64_t id) {
    return events_.try_emplace(id, static_cast<std::uint32_t>(events_.size() + 1)).first->second;
  }

  void depend(Command& command, std::uint32_t on, Tie tie) {
    if (on == none) return;
    for (std::uint32_t i = 0; i < command.dependency_count; ++i) {
      if (made_.dependencies[command.first_dependency + i].command == on) return;
    }
    made_.dependencies.push_back({on, tie});
    ++command.dependency_count;
  }

  void join_spans() {
    find_virtual_clock();
    for (Command& command : made_.commands) {
      calls_.push_back(command.call);
      const TapeRecord* ran = ran_of(command.id);
      const bool is_virtual = is_virtual_[command.stream];
      const std::int64_t shift = shift_of(command);
      if (is_virtual) command.call = call_by_virtual_clock(command, ran);
      if (ran != nullptr) {
        command.begin = moment(ran->begin) + shift;
        command.end = moment(ran->end) + shift;
        const bool takes_none = command.lane == Lane::order || command.lane == Lane::memory;
        command.state = command.end > command.begin || takes_none ? State::ran : State::skipped;
        if (takes_none && command.end == command.begin) end_with_what_it_follows(command, command.end);
      } else if (command.lane == Lane::memory || command.lane == Lane::order) {
        end_with_what_it_follows(command, command.call);
      }
      if (is_virtual) made_.duration = std::max(made_.duration, command.end);
    }
  }
  const TapeRecord* ran_of(std::uint64_t id) const {
    const auto at = std::lower_bound(ran_.begin(), ran_.end(), id,
                                     [](const TapeRecord* one, std::uint64_t id) { return one->id < id; });
    return at != ran_.end() && (*at)->id == id ? *at : nullptr;
  }

  // Work of simulated devices has the moments of their virtual clock, of which the host's threads have each their own. What a
  // thread did by the real clock beside it is put there: behind what the thread called before it, or waited for.
  /// The clock is put such that the first call is where it was made.
  void find_virtual_clock() {
    is_virtual_.resize(made_.streams.size());
    if (!any_virtual_) return;
    for (std::size_t i = 0; i < is_virtual_.size(); ++i) {
      is_virtual_[i] = made_.text(made_.devices[made_.streams[i].device]).starts_with("sim:");
    }
    const auto has_moments = [&](const Command& one) { return ran_of(one.id) != nullptr && ran_of(one.id)->flag; };
    const auto first = std::find_if(made_.commands.begin(), made_.commands.end(), has_moments);
    if (first == made_.commands.end()) return;
    first_virtual_ = first->call;
    virtual_shift_ = first_virtual_ - moment(static_cast<std::int64_t>(ran_of(first->id)->a));
  }
  std::int64_t shift_of(const Command& command) const { return is_virtual_[command.stream] ? virtual_shift_ : 0; }
  std::int64_t call_by_virtual_clock(const Command& command, const TapeRecord* ran) {
    std::map<std::int64_t, std::int64_t>& clock = clocks_[command.thread];
    // What was before the first is not told how long it took: a device may have been starting.
    const std::int64_t known = clock.empty() ? std::max(command.call, first_virtual_) : clock.rbegin()->second;
    const bool told = ran != nullptr && ran->flag;
    const std::int64_t call = told ? moment(static_cast<std::int64_t>(ran->a)) + virtual_shift_ : known;
    return clock[command.call] = std::max<std::int64_t>(call, 0);
  }
  /// A moment of a thread by its virtual clock, if it has one.
  std::int64_t virtual_moment(std::uint32_t thread, std::int64_t real) const {
    const auto clock = clocks_.find(thread);
    if (clock == clocks_.end()) return real;
    const auto after = clock->second.upper_bound(real);
    return after == clock->second.begin() ? real : std::prev(after)->second;
  }
  /// The host waited until the command had ended. False if it had when the wait began.
  bool wait_by_virtual_clock(HostWait& wait) {
    const Command& command = made_.commands[wait.command];
    const std::int64_t real_end = wait.end;
    wait.begin = virtual_moment(wait.thread, wait.begin);
    wait.end = command.end;
    if (command.state == State::pending || wait.end <= wait.begin) return false;
    clocks_[wait.thread][real_end] = wait.end;
    return true;
  }

  /// Records and waits in graphs, and what was skipped, take no time.
  void add_nodes() {
    std::unordered_map<std::uint64_t, GraphEdges> edges;  // by graph
    for (const TapeRecord* told : nodes_) {
      const auto launch = launches_.find(told->id);
      if (launch == launches_.end() || told->end <= told->begin) continue;
      NodeRun run{launch->second.place, static_cast<std::uint32_t>(told->a)};
      const std::int64_t shift = shift_of(made_.commands[run.command]);
      run.begin = moment(told->begin) + shift;
      run.end = moment(told->end) + shift;
      const auto graph = told_.graphs.find(launch->second.graph);
      if (graph != told_.graphs.end() && run.node < graph->second.nodes->size()) {
        const KnownNode& known = graph->second.at(run.node, told_.started + calls_[run.command]);
        run.name = known.name;
        run.file = known.file;
        run.line = known.line;
        run.lane = known.lane;
        const auto& behind = edges.try_emplace(graph->first, *graph->second.nodes).first->second.of(run.node);
        run.first_dependency = static_cast<std::uint32_t>(made_.node_dependencies.size());
        run.dependency_count = static_cast<std::uint32_t>(behind.size());
        made_.node_dependencies.insert(made_.node_dependencies.end(), behind.begin(), behind.end());
      } else {
        run.name = text("node");
      }
      if (run.lane != Lane::order && run.lane != Lane::memory) made_.nodes.push_back(run);
    }
    std::sort(made_.nodes.begin(), made_.nodes.end(), [](const NodeRun& a, const NodeRun& b) {
      return std::tuple(a.command, a.begin, a.node) < std::tuple(b.command, b.begin, b.node);
    });
  }
  /// Memory is made and ends in the stream's order, without a span of its own; of records and waits not every backend tells one,
  /// or it tells what the stream did before, and not when the event was reached.
  void end_with_what_it_follows(Command& command, std::int64_t end) {
    for (const Dependency& on : made_.dependencies_of(command)) {
      const Command& before = made_.commands[on.command];
      if (before.state == State::pending) return;
      end = std::max(end, before.end);
    }
    command.begin = command.end = end;
    command.state = State::ran;
  }

  void add_waits() {
    std::sort(waits_.begin(), waits_.end(),
              [](const TapeRecord* a, const TapeRecord* b) { return a->begin < b->begin; });
    std::vector<std::pair<std::uint64_t, std::uint32_t>> ids;
    for (std::uint32_t i = 0; i < made_.commands.size(); ++i) ids.emplace_back(made_.commands[i].id, i);
    std::sort(ids.begin(), ids.end());
    for (const TapeRecord* told : waits_) {
      HostWait wait;
      wait.file = told->file;
      wait.line = told->line;
      wait.thread = told->thread;
      wait.begin = moment(told->begin);
      wait.end = moment(told->end);
      if (const auto stream = streams_.find(told->stream); stream != streams_.end()) wait.stream = stream->second;
      const auto at = std::lower_bound(ids.begin(), ids.end(), std::pair(told->id, 0u));
      if (told->id != 0 && at != ids.end() && at->first == told->id) wait.command = at->second;
      wait.what = text(words_of(*told, wait));
      const bool holds_its_call = told->flag && wait.command != none;
      if (wait.command == none) wait.command = last_before(*told, wait);
      const bool is_virtual = wait.command != none && is_virtual_[made_.commands[wait.command].stream];
      if (is_virtual && !wait_by_virtual_clock(wait)) continue;
      if (holds_its_call) made_.commands[wait.command].called = wait.end;
      made_.waits.push_back(wait);
    }
    std::stable_sort(made_.waits.begin(), made_.waits.end(),
                     [](const HostWait& a, const HostWait& b) { return a.begin < b.begin; });
  }
  std::string words_of(const TapeRecord& told, const HostWait& wait) const {
    if (told.flag) return "pageable copy";
    switch (static_cast<weir::HostWait::Kind>(told.what)) {
      case weir::HostWait::Kind::all: return "everything";
      case weir::HostWait::Kind::device: return "device " + made_.texts[told.name];
      case weir::HostWait::Kind::event: return "event";
      default: return wait.stream == none ? "stream" : std::string(made_.text(made_.streams[wait.stream].name));
    }
  }
  /// What the host waited for in the end: of a stream the last command before the call, of an event its record, else what ended last.
  std::uint32_t last_before(const TapeRecord& told, const HostWait& wait) const {
    if (static_cast<weir::HostWait::Kind>(told.what) == weir::HostWait::Kind::event) {
      const auto numbers = records_.find(told.a);
      if (numbers == records_.end()) return none;
      const auto record = numbers->second.find(told.b);
      return record == numbers->second.end() ? none : record->second;
    }
    const auto begin = made_.commands.begin();
    const auto after = begin + (std::upper_bound(calls_.begin(), calls_.end(), wait.begin) - calls_.begin());
    std::uint32_t found = none;
    constexpr std::ptrdiff_t looked_at = 1024;
    for (auto at = after; at != begin && after - at < looked_at;) {
      --at;
      const auto place = static_cast<std::uint32_t>(at - begin);
      if (wait.stream != none) {
        if (at->stream == wait.stream) return place;
      } else if ((is_virtual_[at->stream] || at->end <= wait.end) &&
                 (found == none || at->end > made_.commands[found].end)) {
        found = place;
      }
    }
    return found;
  }

  void add_ranges() {
    std::vector<std::vector<NamedRange>> ranges(told_.tape.threads.size());
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      for (const TapeRecord& one : told_.tape.threads[i]) {
        if (one.kind == Kind::range) ranges[i].push_back({one.name, 0, one.begin, one.end});
      }
    }
    for (const Tape::OpenRange& one : told_.tape.open) {
      std::vector<NamedRange>& thread = ranges[one.thread];
      const bool ended = std::any_of(thread.begin(), thread.end(), [&](const NamedRange& range) {
        return range.begin == one.begin && range.name == one.name;
      });
      if (!ended) thread.push_back({one.name, 0, one.begin, -1});
    }
    const std::vector<std::uint32_t> numbers = thread_numbers();
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      for (NamedRange one : ranges[i]) {
        one.thread = numbers[i];
        one.begin = virtual_moment(one.thread, moment(one.begin));
        if (one.end >= 0) one.end = virtual_moment(one.thread, moment(one.end));
        made_.ranges.push_back(one);
      }
    }
    // What is around others comes first.
    const auto end = [](const NamedRange& one) {
      return one.end < 0 ? std::numeric_limits<std::int64_t>::max() : one.end;
    };
    std::sort(made_.ranges.begin(), made_.ranges.end(), [&](const NamedRange& a, const NamedRange& b) {
      return std::tuple(a.begin, -end(a)) < std::tuple(b.begin, -end(b));
    });
  }
  /// Of each list its thread's, as its commands and waits have it; of a thread that has only ranges one of its own.
  std::vector<std::uint32_t> thread_numbers() const {
    std::vector<std::uint32_t> numbers;
    std::uint32_t last = 0;
    for (const std::vector<TapeRecord>& thread : told_.tape.threads) {
      std::uint32_t number = 0;
      for (const TapeRecord& one : thread) {
        if (one.kind == Kind::command || one.kind == Kind::wait) number = std::max(number, one.thread);
      }
      numbers.push_back(number);
      last = std::max(last, number);
    }
    for (std::uint32_t& number : numbers) {
      if (number == 0) number = ++last;
    }
    return numbers;
  }

  const Told& told_;
  Timeline made_;
  std::vector<CommandTold> commands_;
  std::vector<const TapeRecord*> ran_;
  std::vector<const TapeRecord*> waits_;
  std::vector<const TapeRecord*> nodes_;
  std::vector<std::int64_t> calls_;  ///< of the commands, by the real clock
  std::vector<bool> is_virtual_;     ///< of each stream
  std::int64_t virtual_shift_ = 0;
  std::int64_t first_virtual_ = 0;
  /// Of each thread, by the real clock: its virtual one.
  std::map<std::uint32_t, std::map<std::int64_t, std::int64_t>> clocks_;
  bool any_virtual_ = false;
  struct Launch {
    std::uint32_t place;
    std::uint64_t graph;
  };
  std::unordered_map<std::uint64_t, Launch> launches_;              ///< of graphs, by command
  std::unordered_map<std::uint64_t, std::uint32_t> last_launches_;  ///< by graph
  std::unordered_map<std::uint32_t, std::uint32_t> barriers_;       ///< by stream: of the legacy one
  std::unordered_map<std::string, Text> own_texts_;
  std::unordered_map<std::uint64_t, std::uint32_t> streams_;
  std::unordered_map<std::uint64_t, std::uint32_t> events_;
  std::unordered_map<std::uint64_t, std::uint32_t> communicators_;
  CollectiveNumbers collectives_;
  CollectiveOrder collective_order_;
  std::unordered_map<std::uint64_t, std::unordered_map<std::uint64_t, std::uint32_t>> records_;  ///< by event, number
  std::unordered_map<std::uint64_t, std::uint32_t> freed_;                                       ///< by address
  std::vector<std::uint32_t> last_;                                                              ///< of each stream
};

}  // namespace

Timeline assemble(const Told& told) { return Assembler(told).make(); }

}  // namespace weir::trace
