// From what CUPTI told to a timeline: commands in the order of the calls, with what each had to wait for.
#include <algorithm>
#include <iterator>
#include <string>
#include <tuple>
#include <utility>

#include "foreign/calls.hpp"
#include "foreign/names.hpp"
#include "foreign/order.hpp"
#include "foreign/waits.hpp"
#include "trace/words.hpp"

namespace weir::foreign {

namespace {

using Kind = Activity::Kind;
using trace::Lane;
using trace::none;

class Assembler {
 public:
  explicit Assembler(const Collected& collected)
      : collected_(collected),
        calls_(collected.activities),
        names_(collected.texts),
        order_(std::vector<Order::StreamRules>()) {}

  trace::Timeline make() {
    made_.duration = moment(collected_.stopped);
    made_.dropped = collected_.dropped;
    collect();
    add_streams();
    for (const Activity* one : commands_) add_command(*one);
    add_waits();
    add_ranges();
    made_.clock =
        "nanoseconds of CUPTI's clock, as its records have them: on GPUs the device's own stamps, put on that of the "
        "host" +
        cost();
    made_.note = note();
    made_.texts = names_.take();
    return std::move(made_);
  }

 private:
  std::int64_t moment(std::uint64_t ns) const {
    return static_cast<std::int64_t>(ns) - static_cast<std::int64_t>(collected_.started);
  }
  std::uint64_t called(const Activity& one) const {
    const Call* const call = calls_.of(one.correlation);
    return call == nullptr ? one.begin : call->begin;
  }
  std::uint32_t thread(std::uint32_t system) {
    const auto next = static_cast<std::uint32_t>(threads_.size() + 1);
    return threads_.try_emplace(system, next).first->second;
  }

  void collect() {
    for (const Activity& one : collected_.activities) {
      if (is_command(one)) commands_.push_back(&one);
    }
    std::stable_sort(commands_.begin(), commands_.end(), [this](const Activity* a, const Activity* b) {
      return std::tuple(called(*a), a->correlation, a->begin) < std::tuple(called(*b), b->correlation, b->begin);
    });
  }

  std::uint32_t device_of(const Activity& one) const {
    const auto context = collected_.contexts.find(one.context);
    return context == collected_.contexts.end() ? one.device : context->second.device;
  }
  void add_streams() {
    std::vector<std::tuple<std::uint32_t, std::uint32_t, std::uint32_t>> used;  // device, context, stream
    for (const Activity* one : commands_) used.emplace_back(device_of(*one), one->context, one->stream);
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    std::vector<Order::StreamRules> rules;
    std::uint32_t last_device = none;
    for (const auto& [device, context, stream] : used) {
      if (device != std::exchange(last_device, device)) {
        made_.devices.push_back(names_.text("cuda:" + std::to_string(device)));
      }
      const trace::Stream made = stream_of(context, stream);
      rules.push_back({context, made.blocking, made.legacy});
      streams_.emplace(StreamKey(context, stream), static_cast<std::uint32_t>(made_.streams.size()));
      made_.streams.push_back(made);
    }
    order_ = Order(std::move(rules));
  }
  trace::Stream stream_of(std::uint32_t context, std::uint32_t stream) {
    trace::Stream made;
    made.device = static_cast<std::uint32_t>(made_.devices.size() - 1);
    made.id = (std::uint64_t{context} << 32) | stream;
    const auto known_context = collected_.contexts.find(context);
    made.legacy = known_context != collected_.contexts.end() && known_context->second.null_stream == stream;
    std::string name = made.legacy ? "default stream" : "stream " + std::to_string(stream);
    if (const auto known = collected_.streams.find({context, stream}); known != collected_.streams.end()) {
      made.priority = known->second.priority;
      made.blocking = known->second.blocking;
      if (!known->second.name.empty()) name = known->second.name;
    }
    if (!made_.streams.empty() && made_.streams.back().device == made.device &&
        made_.streams.back().id >> 32 != context) {
      contexts_of_device_ = 2;
    }
    if (made_.streams.empty() || made_.streams.back().device != made.device) contexts_of_device_ = 1;
    if (contexts_of_device_ > 1) name += " of context " + std::to_string(context);
    made.name = names_.text(name);
    return made;
  }

  void add_command(const Activity& told) {
    const auto place = static_cast<std::uint32_t>(made_.commands.size());
    trace::Command command;
    command.id = place + 1;
    command.stream = streams_.at({told.context, told.stream});
    command.pageable = told.pageable;
    command.bytes = told.bytes;
    if (const Call* const call = calls_.of(told.correlation)) {
      command.call = std::max<std::int64_t>(0, moment(call->begin));
      command.thread = thread(call->thread);
      const bool staged = told.pageable && call->end > told.begin;
      if (staged || (told.blocks && call->end >= told.end)) command.called = moment(call->end);
    }
    describe(told, command);
    command.first_dependency = static_cast<std::uint32_t>(made_.dependencies.size());
    for (const trace::Dependency& on : order_.add(place, command.stream, told)) made_.dependencies.push_back(on);
    command.dependency_count = static_cast<std::uint32_t>(made_.dependencies.size()) - command.first_dependency;
    add_moments(told, command);
    made_.commands.push_back(command);
  }
  void describe(const Activity& told, trace::Command& command) {
    switch (told.kind) {
      case Kind::kernel:
        command.lane = Lane::kernel;
        command.name = names_.kernel(told.name);
        command.elements = told.number;
        break;
      case Kind::copy: command.lane = told.lane; break;
      case Kind::fill: command.lane = Lane::fill; break;
      case Kind::graph:
        command.lane = Lane::graph;
        command.name = names_.text("graph " + std::to_string(told.object));
        break;
      default:
        command.lane = Lane::order;
        command.name = names_.text(told.kind == Kind::record ? "record" : "wait");
        command.event = order_.event(told);
    }
  }
  void add_moments(const Activity& told, trace::Command& command) const {
    if (command.lane == Lane::order) {
      end_with_what_it_follows(command);
    } else if (told.begin != 0 && told.end >= told.begin) {
      command.begin = moment(told.begin);
      command.end = moment(told.end);
      command.state = trace::State::ran;
    }
  }
  /// Of records and waits no moment is told.
  void end_with_what_it_follows(trace::Command& command) const {
    std::int64_t end = std::max<std::int64_t>(command.call, 0);
    for (std::uint32_t i = 0; i < command.dependency_count; ++i) {
      const trace::Command& before = made_.commands[made_.dependencies[command.first_dependency + i].command];
      if (before.state == trace::State::pending) return;
      end = std::max(end, before.end);
    }
    command.begin = command.end = end;
    command.state = trace::State::ran;
  }

  void add_waits() {
    WaitFinder finder(made_, names_);
    for (const Activity& one : collected_.activities) {
      if (one.kind < Kind::event_sync || one.kind > Kind::device_sync || one.begin == 0) continue;
      const Call* const call = calls_.of(one.correlation);
      trace::HostWait wait;
      wait.begin = moment(call == nullptr ? one.begin : call->begin);
      wait.end = moment(std::max(one.begin, one.end));
      wait.thread = call == nullptr ? 0 : thread(call->thread);
      const auto stream = streams_.find({one.context, one.stream});
      if (one.kind == Kind::event_sync) {
        finder.add_event(wait, order_.record_of(one));
      } else if (one.kind == Kind::stream_sync && stream != streams_.end()) {
        finder.add_stream(wait, stream->second);
      } else {
        finder.add_device(wait, "cuda:" + std::to_string(device_of(one)));
      }
    }
    for (std::uint32_t i = 0; i < made_.commands.size(); ++i) {
      const trace::Command& command = made_.commands[i];
      if (command.called >= 0) finder.add_copy(i);
    }
    for (const Call& call : calls_.all()) {
      if (!allocates(names_, call.name)) continue;
      trace::HostWait wait;
      wait.begin = moment(call.begin);
      wait.end = moment(call.end);
      wait.thread = thread(call.thread);
      finder.add_allocation(wait);
    }
    finder.finish();
  }

  void add_ranges() {
    std::map<std::uint32_t, std::size_t> open;  // by number
    std::vector<const Activity*> told;
    for (const Activity& one : collected_.activities) {
      if (one.kind >= Kind::range_begins) told.push_back(&one);
    }
    std::stable_sort(told.begin(), told.end(),
                     [](const Activity* a, const Activity* b) { return a->begin < b->begin; });
    for (const Activity* one : told) {
      if (one->kind == Kind::range_ends) {
        if (const auto at = open.find(one->object); at != open.end()) {
          made_.ranges[at->second].end = moment(one->begin);
          open.erase(at);
        }
        continue;
      }
      if (one->kind == Kind::range_begins) open[one->object] = made_.ranges.size();
      const std::int64_t end = one->kind == Kind::mark ? moment(one->begin) : -1;
      made_.ranges.push_back({one->name, thread(one->thread), moment(one->begin), end});
    }
  }

  /// Empty where nothing was told of it.
  std::string cost() const {
    std::string words;
    const auto add = [&](std::uint64_t ns, const char* what) {
      if (ns == 0) return;
      words +=
          (words.empty() ? "; CUPTI itself took " : ", ") + trace::duration_text(static_cast<std::int64_t>(ns)) + what;
    };
    add(collected_.overhead.instrumentation, " for instrumentation");
    add(collected_.overhead.resources, " for resources");
    add(collected_.overhead.buffers, " for buffers of records");
    return words + (words.empty() ? "" : ", of all threads together");
  }

  std::string note() const {
    std::string words;
    if (collected_.dropped > 0) {
      words = std::to_string(collected_.dropped) +
              " commands were dropped, the oldest first: the limit of memory was reached";
    }
    if (collected_.lost > 0) {
      words += (words.empty() ? "" : "; ") + std::to_string(collected_.lost) + " records were lost by CUPTI";
    }
    const auto without = std::count_if(commands_.begin(), commands_.end(),
                                       [](const Activity* one) { return one->kind < Kind::record && one->begin == 0; });
    if (without > 0) words += (words.empty() ? "" : "; ") + std::to_string(without) + " commands have no moments";
    return words;
  }

  const Collected& collected_;
  trace::Timeline made_;
  Calls calls_;
  Names names_;
  Order order_;
  std::vector<const Activity*> commands_;
  std::map<StreamKey, std::uint32_t> streams_;
  std::map<std::uint32_t, std::uint32_t> threads_;
  int contexts_of_device_ = 1;
};

}  // namespace

trace::Timeline assemble(const Collected& collected) { return Assembler(collected).make(); }

}  // namespace weir::foreign
