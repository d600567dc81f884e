// Sessions: observers that write down what they are told, and make timelines of it.
#include "trace/session.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <variant>

#include <unistd.h>

#include <weir/error.hpp>
#include <weir/kernel.hpp>
#include <weir/observer.hpp>
#include <weir/sim.hpp>

#include "thread_safety.hpp"
#include "trace/best_rates.hpp"
#include "trace/keeper.hpp"
#include "trace/nvtx.hpp"
#include "trace/process.hpp"

namespace weir::trace {

namespace {

constexpr Watch watched =
    Watch::commands | Watch::memory | Watch::host | Watch::graphs | Watch::times | Watch::refusals;

std::int64_t nanoseconds(std::chrono::steady_clock::time_point moment) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(moment.time_since_epoch()).count();
}

std::uint64_t bytes_of(const Region& use) {
  std::uint64_t bytes = use.row_bytes * use.rows;
  for (std::size_t d = 0; d < use.outer_count; ++d) bytes *= use.outer[d].count;
  return bytes;
}
std::uint64_t bytes_of(std::span<const Region> uses) {
  std::uint64_t bytes = 0;
  for (const Region& use : uses) bytes += bytes_of(use);
  return bytes;
}
/// Of a launch: all of them together, too.
void describe(std::span<const Region> uses, Tape::Writer& writer, TapeRecord& record) {
  if (uses.empty() || uses.size() > Tape::Writer::most_arguments) {
    record.a = bytes_of(uses);
    return;
  }
  Tape::Writer::Argument all[Tape::Writer::most_arguments];
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    all[i] = {bytes_of(uses[i]), uses[i].access};
    sum += all[i].bytes;
  }
  record.a = sum;
  record.arguments = writer.arguments(std::span(all, uses.size()));
}

/// Whether the launch tells what the last one of this thread told, but for when it was and how many elements it has.
bool is_like(const weir::Command& command, const Launch& launch, const Tape::Writer::LastLaunch& last) {
  if (command.where.file_name() != last.file || command.where.line() != last.line || command.stream != last.stream ||
      launch.kernel->name.data() != last.kernel || launch.name != nullptr || command.thread != last.thread ||
      command.uses.size() != last.count || !command.behind.empty()) {
    return false;
  }
  for (std::size_t i = 0; i < last.count; ++i) {
    if (bytes_of(command.uses[i]) != last.all[i].bytes || command.uses[i].access != last.all[i].access) return false;
  }
  return true;
}
void note_launch(const weir::Command& command, const Launch& launch, Tape::Writer& writer) {
  if (launch.name != nullptr || command.uses.size() > Tape::Writer::LastLaunch::most) return;
  Tape::Writer::LastLaunch& last = writer.note_launch();
  last.file = command.where.file_name();
  last.line = command.where.line();
  last.stream = command.stream;
  last.kernel = launch.kernel->name.data();
  last.thread = command.thread;
  last.count = command.uses.size();
  for (std::size_t i = 0; i < last.count; ++i) last.all[i] = {bytes_of(command.uses[i]), command.uses[i].access};
}

Lane lane_of(const Copy& copy) {
  const bool to_device = copy.to_kind == MemoryKind::device;
  const bool from_device = copy.from_kind == MemoryKind::device;
  if (to_device) return from_device ? Lane::copy_device : Lane::copy_in;
  return from_device ? Lane::copy_out : Lane::copy_host;
}

void describe(const weir::Command& command, Tape::Writer& writer, TapeRecord& record) {
  const auto order = [&](OrderKind kind, std::uint64_t a, std::uint64_t b, Lane lane = Lane::order) {
    record.lane = lane;
    record.what = static_cast<std::uint8_t>(kind);
    record.a = a;
    record.b = b;
  };
  visit_op(
      command.op,
      [&](const Launch& launch) {
        record.lane = Lane::kernel;
        record.name = launch.name == nullptr ? writer.kernel(launch.kernel->name) : writer.text(launch.name);
        describe(command.uses, writer, record);
        record.b = launch.extent.count();
      },
      [&](const Copy& copy) {
        record.lane = lane_of(copy);
        record.flag = copy.to_kind == MemoryKind::pageable || copy.from_kind == MemoryKind::pageable;
        record.a = copy.to_layout.shape.count() * copy.to_layout.element_bytes;
      },
      [&](const Fill& fill) {
        record.lane = Lane::fill;
        record.a = fill.layout.shape.count() * fill.layout.element_bytes;
      },
      [&](const Alloc& alloc) {
        order(OrderKind::alloc, reinterpret_cast<std::uintptr_t>(alloc.data), alloc.bytes, Lane::memory);
      },
      [&](const Free& free) {
        order(OrderKind::free, reinterpret_cast<std::uintptr_t>(free.data), free.bytes, Lane::memory);
      },
      [&](const Record& one) { order(OrderKind::record, one.event_id, one.number); },
      [&](const Wait& wait) {
        order(wait.event == nullptr ? OrderKind::behind : OrderKind::wait, wait.event_id, wait.record);
      },
      [&](const HostCall&) { record.lane = Lane::host_function; },
      [&](const External&) {
        record.lane = Lane::external;
        record.a = bytes_of(command.uses);
      },
      [&](const GraphLaunch& graph) {
        record.lane = Lane::graph;
        record.a = bytes_of(command.uses);
        record.b = graph.id;
      },
      [&](const Collective& collective) {
        record.lane = Lane::external;
        record.name = writer.text(collective.call);
        record.a = collective.bytes;
      });
}

/// What a collective has beside other commands.
void describe(CommandId id, const Collective& collective, TapeRecord& record) {
  record.kind = TapeRecord::Kind::collective;
  record.id = id;
  record.a = collective.communicator;
  record.b = collective.number;
  record.line = static_cast<std::uint32_t>(collective.rank);
  record.thread = static_cast<std::uint32_t>(collective.size);
  record.stream = static_cast<std::uint64_t>(collective.peer + 1);
  record.flag = collective.across_processes;
}

KnownNode known(const GraphNodeInfo& node, Tape::Writer& writer) {
  KnownNode made;
  made.depends.assign(node.depends.begin(), node.depends.end());
  if (node.where) {
    made.file = writer.file(node.where.file_name());
    made.line = node.where.line();
  }
  if (node.op == nullptr) return made;
  weir::Command command;
  command.op = *node.op;
  command.uses = node.uses;
  TapeRecord record;
  describe(command, writer, record);
  made.name = record.name;
  made.lane = record.lane;
  return made;
}

// Sessions that run, for ranges, which no observer is told of.
detail::SharedMutex sessions_mutex;
std::vector<Session::State*> sessions WEIR_GUARDED_BY(sessions_mutex);
std::atomic<std::size_t> session_count{0};

}  // namespace

class Session::State final : public Observer {
 public:
  State(const SessionOptions& options, SourceLocation where)
      : options_(options), tape_(options.limit), started_(now()), date_(date_now()), process_(getpid()) {
    // Now, and not when all is over, it turns out that the file cannot be written.
    if (!options_.file.empty()) options_.file = std::filesystem::absolute(options_.file);
    // What a pipe was given stays, and is all that its reader gets.
    std::error_code ignored;
    const bool again = !options_.file.empty() && !std::filesystem::is_fifo(options_.file, ignored);
    if (again) save(unfinished(), options_.file, where);
    attach(*this, watched, where);
    {
      const detail::LockGuard lock(sessions_mutex);
      sessions.push_back(this);
      session_count.store(sessions.size(), std::memory_order_relaxed);
    }
    if (again) keeper_ = std::make_unique<Keeper>(options_.file, [this] { return unfinished(); });
  }
  /// A child has the parent's session, but none of its threads.
  bool inherited() const { return getpid() != process_; }
  /// False if it has stopped before, or is the parent's.
  bool stop() {
    if (inherited() || stopped_) return false;
    detach(*this);  // first: a host function may not, and then nothing has changed
    stopped_ = true;
    {
      const detail::LockGuard lock(sessions_mutex);
      std::erase(sessions, this);
      session_count.store(sessions.size(), std::memory_order_relaxed);
    }
    if (keeper_ != nullptr) keeper_->stop();
    return true;
  }
  /// For the last time, and its file is written. Inside a host function, where the process may end, nobody can detach.
  void finish() {
    if (inherited() || stopped_) return;
    try {
      stop();
    } catch (const Error& error) {
      if (error.errc() != Errc::not_permitted) throw;
      if (keeper_ != nullptr) keeper_->stop();
    }
    if (!options_.file.empty()) save(timeline(), options_.file, {});
  }
  /// Nothing is told to it any more.
  bool stopped() const { return stopped_; }

  Timeline timeline() const {
    Told told{tape_.read(), {}, {}, started_, now(), clock_error_.load(std::memory_order_relaxed), cost()};
    {
      const detail::LockGuard lock(known_mutex_);
      told.streams = streams_;
      told.graphs = graphs_;
    }
    Timeline made = assemble(told);
    set_best_rates_of_gpus(made);
    set_best_rates_of_simulated_devices(made);
    made.program = command_line();
    made.date = date_;
    made.origin = started_;
    made.machine = machine();
    return made;
  }
  /// As a file has it until the session stops.
  Timeline unfinished() const {
    Timeline made = timeline();
    add_note(made, written_meanwhile);
    return made;
  }
  const std::filesystem::path& file() const { return options_.file; }

  void begin_range(std::string_view name, std::int64_t begin) { tape_.writer().begin_range(name, begin); }
  void end_range(std::string_view name, std::int64_t begin, std::int64_t end) {
    tape_.writer().end_range(name, begin, end);
  }

 private:
  void submitted(const weir::Command& command) override {
    if (command.stream == 0) return;  // memory of the host
    Tape::Writer& writer = tape_.writer();
    const std::int64_t begin = nanoseconds(command.called());
    const auto* const launch = std::get_if<Launch>(&command.op);
    if (launch != nullptr && is_like(command, *launch, writer.last_launch()) &&
        writer.add_again(command.id, begin, launch->extent.count())) {
      return measure_some(command.id, begin);
    }
    TapeRecord& record = writer.next();
    record.begin = begin;
    record.id = command.id;
    record.stream = command.stream;
    record.thread = command.thread;
    place(command.where, writer, record);
    describe(command, writer, record);
    writer.add();
    if (launch != nullptr) note_launch(command, *launch, writer);
    if (const auto* const collective = std::get_if<Collective>(&command.op)) {
      describe(command.id, *collective, writer.next());
      writer.add();
    }
    for (const StreamId stream : command.behind) {
      TapeRecord& before = writer.next();
      before.kind = TapeRecord::Kind::behind;
      before.id = command.id;
      before.a = stream;
      writer.add();
    }
    measure_some(command.id, begin);
  }
  void measure_some(CommandId id, std::int64_t begin) {
    if (id % measured_each == 0) measure(now() - begin);
  }
  /// Of calls now and then; not where the thread was interrupted. Of two threads at once either may be lost.
  void measure(std::int64_t took) {
    constexpr std::int64_t interrupted = 10'000;
    if (took > interrupted) return;
    cost_sum_.store(cost_sum_.load(std::memory_order_relaxed) + took, std::memory_order_relaxed);
    cost_count_.store(cost_count_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  std::int64_t cost() const {
    const std::int64_t count = cost_count_.load(std::memory_order_relaxed);
    return count == 0 ? -1 : cost_sum_.load(std::memory_order_relaxed) / count;
  }
  void refused(const Refusal& refusal) override {
    if (!refusal.told) return;
    Tape::Writer& writer = tape_.writer();
    TapeRecord& record = writer.next();
    record.kind = TapeRecord::Kind::refused;
    record.id = refusal.command.id;
    writer.add();
  }
  void ran(CommandId id, StreamId stream, Span span) override {
    Tape::Writer& writer = tape_.writer();
    TapeRecord& record = writer.next();
    record.kind = TapeRecord::Kind::ran;
    record.id = id;
    record.stream = stream;
    record.begin = nanoseconds(span.begin);
    record.end = nanoseconds(span.end);
    record.flag = span.source == Span::Source::simulated;
    if (record.flag) record.a = static_cast<std::uint64_t>(nanoseconds(span.called));
    writer.add();
    if (span.error.count() > clock_error_.load(std::memory_order_relaxed)) {
      clock_error_.store(span.error.count(), std::memory_order_relaxed);
    }
  }
  void ran_node(CommandId launch, StreamId stream, std::uint32_t node, Span span) override {
    Tape::Writer& writer = tape_.writer();
    TapeRecord& record = writer.next();
    record.kind = TapeRecord::Kind::node;
    record.id = launch;
    record.stream = stream;
    record.a = node;
    record.begin = nanoseconds(span.begin);
    record.end = nanoseconds(span.end);
    writer.add();
  }
  void graph_made(const GraphInfo& graph) override {
    Tape::Writer& writer = tape_.writer();
    std::vector<KnownNode> nodes;
    nodes.reserve(graph.nodes.size());
    for (const GraphNodeInfo& node : graph.nodes) nodes.push_back(known(node, writer));
    const detail::LockGuard lock(known_mutex_);
    if (graphs_.count(graph.id) != 0) {  // told again for another observer
      for (std::uint32_t node = 0; node < nodes.size(); ++node) change(graph.id, node, nodes[node]);
      return;
    }
    // A program that captures the same graph again and again has its nodes once; its place in the map counts as some nodes, too.
    const bool is_new = last_graph_ == nullptr || *last_graph_ != nodes;
    nodes_left_ -= std::min(nodes_left_, 4 + (is_new ? nodes.size() : 0));
    if (nodes_left_ == 0) return;
    if (is_new) last_graph_ = std::make_shared<const std::vector<KnownNode>>(std::move(nodes));
    graphs_.insert_or_assign(graph.id, KnownGraph{last_graph_, {}});
  }
  void graph_changed(std::uint64_t graph, std::uint32_t node, const GraphNodeInfo& info) override {
    const KnownNode made = known(info, tape_.writer());
    const detail::LockGuard lock(known_mutex_);
    change(graph, node, made);
  }
  /// For later launches.
  void change(std::uint64_t graph, std::uint32_t node, const KnownNode& made) WEIR_NEEDS(known_mutex_) {
    const auto at = graphs_.find(graph);
    if (at == graphs_.end() || node >= at->second.nodes->size())
      return;  // who is told of it later sees it as it is then
    const std::int64_t since = now();
    if (at->second.at(node, since) == made) return;  // as most updates, which bring other arguments alone
    if (nodes_left_ == 0) {
      graphs_.erase(at);  // rather no name than a wrong one
      return;
    }
    --nodes_left_;
    at->second.changes[node].push_back({since, made});
  }
  void waited(const weir::HostWait& wait) override {
    if (wait.began == std::chrono::steady_clock::time_point()) return;  // a question, which does not wait
    Tape::Writer& writer = tape_.writer();
    TapeRecord& record = writer.next();
    record.kind = TapeRecord::Kind::wait;
    record.begin = nanoseconds(wait.began);
    record.end = now();
    record.stream = wait.stream;
    record.thread = wait.thread;
    record.what = static_cast<std::uint8_t>(wait.kind);
    record.flag = wait.source == weir::HostWait::Source::pageable_copy;
    record.id = wait.command;
    record.a = wait.event_id;
    record.b = wait.record;
    if (wait.kind == weir::HostWait::Kind::device) {
      record.name = writer.text(std::string(wait.backend) + ":" + std::to_string(wait.device));
    }
    place(wait.where, writer, record);
    writer.add();
  }
  void opened(const StreamInfo& stream) override {
    KnownStream known{stream.name, stream.device.name(), stream.priority, stream.blocking, stream.legacy};
    const detail::LockGuard lock(known_mutex_);
    streams_.insert_or_assign(stream.id, std::move(known));
    if (stream.device.backend() == "sim") simulated_.try_emplace(stream.device.name(), stream.device);
  }
  void set_best_rates_of_simulated_devices(Timeline& timeline) const {
    const detail::LockGuard lock(known_mutex_);
    for (std::uint32_t i = 0; i < timeline.devices.size(); ++i) {
      const auto device = simulated_.find(std::string(timeline.text(timeline.devices[i])));
      if (device == simulated_.end()) continue;
      const sim::LinkRates link = sim::link_rates(device->second);
      set_best_rates(timeline, i,
                     {static_cast<std::uint64_t>(link.to_device), static_cast<std::uint64_t>(link.from_device),
                      "the profile " + link.profile});
    }
  }

  static void place(SourceLocation where, Tape::Writer& writer, TapeRecord& record) {
    if (!where) return;
    record.file = writer.file(where.file_name());
    record.line = where.line();
  }

  SessionOptions options_;
  Tape tape_;
  const std::int64_t started_;
  const std::string date_;
  const pid_t process_;
  std::atomic<std::int64_t> clock_error_{0};  ///< of two that are told at once either may be lost: they differ little
  static constexpr std::uint64_t measured_each = 17;
  alignas(64) std::atomic<std::int64_t> cost_sum_{0};  // threads that call write it, others read what is before it

  std::atomic<std::int64_t> cost_count_{0};
  alignas(64) bool stopped_ = false;
  mutable detail::Mutex known_mutex_;
  std::unordered_map<std::uint64_t, KnownStream> streams_ WEIR_GUARDED_BY(known_mutex_);  ///< those that are gone stay
  std::unordered_map<std::uint64_t, KnownGraph> graphs_ WEIR_GUARDED_BY(known_mutex_);    ///< likewise
  std::unordered_map<std::string, Device> simulated_ WEIR_GUARDED_BY(known_mutex_);       ///< by name
  std::shared_ptr<const std::vector<KnownNode>> last_graph_ WEIR_GUARDED_BY(known_mutex_);
  std::size_t nodes_left_ WEIR_GUARDED_BY(known_mutex_) = options_.limit / 8 / sizeof(KnownNode);
  std::unique_ptr<Keeper> keeper_;
};

Session::Session(const SessionOptions& options, SourceLocation where)
    : state_(std::make_unique<State>(options, where)) {}

Session::~Session() {
  try {
    state_->finish();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weir: trace: %s\n", error.what());
  }
  if (state_->inherited() || !state_->stopped()) static_cast<void>(state_.release());
}

Timeline Session::timeline() const { return state_->timeline(); }

Timeline Session::stop() {
  const bool stops = state_->stop();
  Timeline made = state_->timeline();
  if (stops && !state_->file().empty()) save(made, state_->file(), {});
  return made;
}

Range::Range(std::string_view name) {
  told_ = nvtx_listens();
  const bool traced = session_count.load(std::memory_order_relaxed) != 0;
  if (!told_ && !traced) return;
  name_ = name;
  if (told_) nvtx_push(name_);
  if (!traced) return;
  begin_ = now();
  const detail::SharedGuard lock(sessions_mutex);
  for (Session::State* session : sessions) session->begin_range(name_, begin_);
}

Range::~Range() {
  if (told_) nvtx_pop();
  if (begin_ < 0) return;
  const std::int64_t end = now();
  const detail::SharedGuard lock(sessions_mutex);
  for (Session::State* session : sessions) session->end_range(name_, begin_, end);
}

}  // namespace weir::trace
