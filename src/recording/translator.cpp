// What observers are told, in the words of a recording.
#include "recording/translator.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <weir/graph_node.hpp>
#include <weir/kernel.hpp>
#include <weir/sim.hpp>

namespace weir::recorded {

namespace {

/// Asked at the same line.
bool same(const HostWait& one, const HostWait& other) {
  return one.kind == other.kind && one.stream == other.stream && one.event_id == other.event_id &&
         one.where.line() == other.where.line() && std::string_view(one.where.file_name()) == other.where.file_name();
}

}  // namespace

void Translator::start(Watch watch, SourceLocation where) {
  attaching_ = true;
  attach(*this, watch, where);
  attaching_ = false;
}

void Translator::submitted(const weir::Command& command) {
  keep([&] {
    settle(command.thread);
    arrive(command.thread, std::nullopt, command.where);
    add(command);
    leave(command.thread);
  });
}

void Translator::waited(const HostWait& wait) {
  const bool as_the_copy_says = wait.source == HostWait::Source::pageable_copy || wait.kind == HostWait::Kind::command;
  if (as_the_copy_says && !extras_.host_times) return;
  keep([&] {
    if (!as_the_copy_says) {
      // A yes counts as asked for until then.
      const auto pending = pending_.find(wait.thread);
      if (pending != pending_.end() && wait.source == HostWait::Source::query && same(pending->second.question, wait))
        pending->second.times = 0;
      settle(wait.thread);
      if (wait.began != Time()) arrive(wait.thread, wait.began, wait.where);
      add(wait);
    }
    leave(wait.thread);
  });
}

/// Loops ask again and again: of those that end with a yes, the first no is kept, which older devices check launches for.
void Translator::asked(const HostWait& question) {
  if (!extras_.costs) return;
  keep([&] {
    Pending& pending = pending_[question.thread];
    if (same(pending.question, question) && pending.works.empty()) {
      if (!extras_.host_times) ++pending.times;  // else it is in the real time
      return;
    }
    settle(pending);
    arrive(question.thread, std::nullopt, question.where);
    add(question, false);
    leave(question.thread);
    pending.question = question;
  });
}

void Translator::settle(std::uint32_t thread) {
  if (const auto found = pending_.find(thread); found != pending_.end()) settle(found->second);
}

void Translator::settle(Pending& pending) {
  const Pending all = std::exchange(pending, {});
  for (std::size_t i = 0; i < all.times; ++i) add(all.question, false);
  for (const HostWork& work : all.works) add_work(work.time, work.thread, work.where);
}

void Translator::take_back(Pending& pending, std::chrono::nanoseconds time) {
  for (; time.count() > 0 && !pending.works.empty(); pending.works.pop_back()) time -= pending.works.back().time;
}

void Translator::stop() {
  for (auto& [thread, pending] : pending_) keep([&, &one = pending] { settle(one); });
}

void Translator::accessed(const HostAccess& access) {
  keep([&] { add(access); });
}

void Translator::handed(const HandOffCall& call) {
  keep([&] {
    const Name name = names_.text("handoff" + std::to_string(call.hand_off));
    if (call.command != 0) return sink_.gave(call.command, name);
    settle(call.thread);
    arrive(call.thread, std::nullopt, call.where);
    Command made = begun(call.gives ? Op::give : Op::take, call.thread, call.where);
    made.target_kind = Target::hand_off;
    made.target = name;
    sink_.add(made);
    leave(call.thread);
  });
}

void Translator::worked(const HostWork& work) {
  if (!extras_.costs || extras_.host_times) return;
  keep([&] {
    Pending& pending = pending_[work.thread];
    if (work.may_be_taken_back) return pending.works.push_back(work);
    if (work.time.count() < 0) return take_back(pending, -work.time);
    settle(pending);
    add_work(work.time, work.thread, work.where);
  });
}

void Translator::add_work(std::chrono::duration<double, std::nano> time, std::uint32_t thread, SourceLocation where) {
  Cost cost;
  cost.ns = time.count();
  sink_.add(begun(Op::work, thread, where), {.cost = cost});
}

void Translator::arrive(std::uint32_t thread, std::optional<Time> at, SourceLocation where) {
  if (!extras_.host_times || thread == 0) return;
  const Time now = at ? *at : std::chrono::steady_clock::now();
  if (const auto left = left_.find(thread); left != left_.end() && now > left->second)
    add_work(now - left->second, thread, where);
}
void Translator::leave(std::uint32_t thread) {
  if (extras_.host_times && thread != 0) left_[thread] = std::chrono::steady_clock::now();
}

void Translator::host_gone(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) {
  keep([&] {
    for (const auto& [command, part] : ends_of(data, bytes, where, thread)) {
      if (part.whole) {
        sink_.add(command);
      } else {
        sink_.part_gone(command, part.begin, part.end);
      }
    }
    objects_.host_gone(data, bytes);
  });
}

std::vector<Translator::End> Translator::ends_of(const void* data, std::size_t bytes, SourceLocation where,
                                                 std::uint32_t thread) {
  std::vector<End> ends;
  for (const MemoryMap::Part& part : objects_.parts_of(data, bytes)) {
    Command made = begun(Op::free, thread, where);
    made.target_kind = Target::buffer;
    made.target = part.range;
    ends.push_back({made, part});
  }
  return ends;
}

void Translator::pinned(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t) {
  keep_late([&] { objects_.pinned(data, bytes, where); });
}
void Translator::unpinned(const void* data, std::size_t, SourceLocation, std::uint32_t) {
  keep_late([&] { objects_.unpinned(data); });
}

void Translator::named(BufferId id, std::string_view name) {
  keep_late([&] { objects_.named(id, name); });
}

void Translator::opened(const StreamInfo& stream) {
  keep_late([&] { objects_.opened(stream); });
  // A device's own is there from the start, also where the device is opened later.
  if (attaching_ || !stream.where) return;
  if (!extras_.for_people) return keep_late([&] { unmade_[stream.id] = stream.where; });
  keep([&] { make(stream.id, stream.where); });
}

std::uint32_t Translator::make(StreamId id, SourceLocation where) {
  Command made = begun(Op::make, 0, where);
  made.stream = objects_.stream(id, true);
  sink_.add(made);
  return made.stream;
}

/// Recordings make streams before the first command that names them: so those that the library opens for itself, to build or
/// change graphs, are in none.
std::uint32_t Translator::stream(StreamId id) {
  const auto found = unmade_.find(id);
  if (found == unmade_.end()) return objects_.stream(id);
  const SourceLocation where = found->second;
  unmade_.erase(found);
  return make(id, where);
}

void Translator::closed(StreamId id) {
  keep([&] {
    unmade_.erase(id);
    const std::uint32_t place = objects_.closed(id);
    if (place == none) return;
    Command made = begun(Op::drop, 0, {});
    made.stream = place;
    sink_.add(made);
  });
}

void Translator::graph_made(const GraphInfo& graph) {
  keep([&] {
    if (graphs_.knows(graph.id)) return;
    graphs_.build(sink_, names_, graph, objects_.device(graph.device),
                  [this](const GraphNodeInfo& node, Node& made, std::uint32_t device) { fill_in(node, made, device); });
  });
}

void Translator::graph_changed(std::uint64_t graph, std::uint32_t node, const GraphNodeInfo& info) {
  keep([&] {
    Node now;
    fill_in(info, now, graphs_.device(graph));
    graphs_.change(sink_, graph, node, info.enabled, now);
  });
}

void Translator::graph_gone(std::uint64_t graph) {
  keep([&] {
    if (!graphs_.knows(graph)) return;
    Command made = begun(Op::drop, 0, {});
    made.target_kind = Target::graph;
    const Graphs::Gone gone = graphs_.forget(graph);
    made.target = gone.name;
    sink_.add(made);
    for (const Graphs::Memory& one : gone.memory) objects_.forget(one.buffer, one.data);
  });
}

Command Translator::begun(Op op, std::uint32_t thread, SourceLocation where) {
  Command made;
  made.op = op;
  made.thread = objects_.thread(thread);
  if (where.line() != 0) {
    made.file = names_.file(where.file_name());
    made.line = where.line();
  }
  return made;
}

void Translator::add(const weir::Command& command) {
  if (const auto* wait = std::get_if<Wait>(&command.op); wait != nullptr && wait->event == nullptr) {
    return add_order(command);
  }
  std::vector<Use>& uses = uses_of_command_;
  uses.clear();
  const std::uint32_t same = sink_.keeps() ? repeats_.find(command, objects_.memory()) : none;
  Command made = same != none ? called(command) : translated(command, uses);
  if (extras_.for_people) name_maker(command, made, uses);
  const bool unknown = made.target_kind != Target::none && made.target == none;  // older than the recording
  if (unknown || made.op == Op::empty) return;
  std::optional<Cost> cost;
  const bool simulated = extras_.costs && objects_.simulated(objects_.device_of(command.stream));
  if (simulated) cost = sim::cost_of(command.op, command.where);
  if (same != none) {
    sink_.add_like(made, same, cost, command.id);
    repeats_.note_like(command, made, !simulated);
    return;
  }
  std::optional<Collective> part;
  if (std::holds_alternative<weir::Collective>(command.op) && command.graph == 0) part = collective(command);
  const std::size_t place = sink_.add(made, {.uses = uses, .cost = cost, .collective = part}, command.id);
  if (sink_.keeps()) repeats_.note(command, made, uses, place, objects_.memory(), !simulated);
  if (const auto* launch = std::get_if<GraphLaunch>(&command.op);
      launch != nullptr && simulated && command.graph == 0) {
    if (const auto paths = graphs_.paths_to_functions(launch->id)) sink_.launched(place, command.id, paths);
  }
  if (made.op == Op::free && command.graph == 0) objects_.ended(made.target);
}

/// Of ranks in other processes no part is known: it has no number of ranks. Where the host does not reach their memory, each call's
/// own stream copies what is sent and received: of two streams nothing orders that.
std::optional<Collective> Translator::collective(const weir::Command& command) {
  const auto& op = std::get<weir::Collective>(command.op);
  if (op.across_processes && !objects_.host_reaches(command.stream)) return std::nullopt;
  Collective made{.communicator = op.communicator,
                  .name = names_.text(op.communicator_name),
                  .number = op.number,
                  .unit = op.unit,
                  .rank = op.rank,
                  .ranks = op.across_processes ? 0 : op.size};
  const std::string_view call = op.call;
  if (call == "send") made.from = op.rank, made.to = op.peer;
  if (call == "receive") made.from = op.peer, made.to = op.rank;
  return made;
}

/// weir::zeros and weir::full are an allocation and a fill of one line.
void Translator::name_maker(const weir::Command& command, Command& made, const std::vector<Use>& uses) {
  if (made.op == Op::alloc) last_alloc_ = made;
  const auto* const fill = std::get_if<Fill>(&command.op);
  if (fill == nullptr || uses.empty() || uses[0].buffer != last_alloc_.target || made.line != last_alloc_.line ||
      made.file != last_alloc_.file || last_alloc_.op != Op::alloc) {
    return;
  }
  const auto* const value = static_cast<const std::byte*>(fill->value);
  const bool zero =
      std::all_of(value, value + fill->layout.element_bytes, [](std::byte b) { return b == std::byte{0}; });
  made.name = names_.text(zero ? "weir::zeros" : "weir::full or weir::ones");
}

Command Translator::called(const weir::Command& command) {
  Command made = begun(Op::launch, command.thread, command.where);
  made.stream = stream(command.stream);
  if (const auto* launch = std::get_if<Launch>(&command.op)) {
    made.name = names_.kernel(launch->name != nullptr ? std::string_view(launch->name) : launch->kernel->name);
  }
  if (const auto* part = std::get_if<weir::Collective>(&command.op)) made.name = names_.text(part->call);
  return made;
}

Command Translator::translated(const weir::Command& command, std::vector<Use>& uses, bool runs) {
  Command made = called(command);
  if (const auto* launch = std::get_if<GraphLaunch>(&command.op)) {
    made.op = Op::launch_graph;
    made.target_kind = Target::graph;
    made.target = graphs_.name(launch->id);
  } else {
    objects_.describe({command.op, command.uses, command.stream, objects_.device_of(command.stream), runs}, made, uses);
  }
  return made;
}

/// A collective is whole, and so the stream comes behind those of the other ranks.
void Translator::add_order(const weir::Command& command) {
  for (const StreamId before : command.behind) {
    Command made = begun(Op::wait, command.thread, command.where);
    made.stream = stream(command.stream);
    made.target_kind = Target::stream;
    made.target = stream(before);
    made.flag = true;
    if (made.target != none) sink_.add(made);
  }
}

void Translator::add(const HostWait& wait, bool answer) {
  const bool query = wait.source == HostWait::Source::query;
  Command made = begun(query ? Op::query : Op::synchronize, wait.thread, wait.where);
  made.flag = query && answer;
  switch (wait.kind) {
    case HostWait::Kind::all: made.target_kind = Target::all; break;
    case HostWait::Kind::device:
      made.target_kind = Target::device;
      made.target = objects_.device(wait);
      break;
    case HostWait::Kind::stream:
      made.stream = stream(wait.stream);
      if (made.stream == none) return;
      break;
    default:
      made.target_kind = Target::event;
      made.target = objects_.event(wait.event_id, wait.stream, nullptr);
      break;
  }
  const bool named = made.target_kind == Target::event || made.target_kind == Target::device;
  if (named && made.target == none) return;
  sink_.add(made);
}

Command Translator::translated(const HostAccess& access, std::vector<Use>& use) {
  Command made = begun(access.begins ? Op::host_open : Op::host_close, access.thread, access.where);
  made.target_kind = Target::scope;
  made.target = names_.text("guard" + std::to_string(access.guard));
  if (access.begins) objects_.add_uses({&access.region, 1}, MemoryKind::pageable, 0, use);
  return made;
}

void Translator::add(const HostAccess& access) {
  std::vector<Use> use;
  const Command made = translated(access, use);
  if (access.begins) {
    if (use.empty()) return;  // of no bytes: nothing is touched, and its end is nobody's
    open_guards_.insert(access.guard);
    sink_.add(made, {.uses = use});
  } else if (open_guards_.erase(access.guard) != 0) {
    sink_.add(made);
  }
}

/// What a node does, of what the observer is told.
void Translator::fill_in(const GraphNodeInfo& node, Node& made, std::uint32_t device) {
  if (node.where.line() != 0) {
    made.file = names_.file(node.where.file_name());
    made.line = node.where.line();
  }
  if (extras_.for_people && node.stream != 0) made.stream = objects_.stream(node.stream);
  if (node.op != nullptr) {
    objects_.describe({*node.op, node.uses, node.stream, device, false}, made, made.uses);
    made.collective = node.collective;
    made.communicator = node.communicator;
    if (node.communicator != 0) made.communicator_name = names_.text(node.communicator_name);
    if (extras_.for_people) made.label = names_.text(node.name);
    if (extras_.costs && objects_.simulated(device)) made.cost = sim::cost_of(*node.op, node.where);
  } else if (node.kind == NodeKind::conditional) {
    objects_.add_uses(node.uses, MemoryKind::device, device, made.uses);
  }
}

}  // namespace weir::recorded
