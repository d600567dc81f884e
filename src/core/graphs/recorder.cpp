// Recording: from commands to nodes.
#include <algorithm>
#include <memory>

#include <weir/graph_update.hpp>

#include "core/collectives/captured_call.hpp"
#include "core/graphs/capture.hpp"
#include "core/graphs/graph_state.hpp"
#include "core/graphs/marks.hpp"
#include "core/ipc/imported_event.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

const char* operation_of(const Op& op) {
  return visit_op(
      op, [](const Launch&) { return "weir::launch"; }, [](const Copy&) { return "weir::copy"; },
      [](const Fill&) { return "weir::fill"; }, [](const Alloc&) { return "weir::Pool::allocate"; },
      [](const Free&) { return "weir::Pool::free"; }, [](const Record&) { return "weir::Stream::record"; },
      [](const Wait&) { return "weir::Stream::wait"; }, [](const HostCall&) { return "weir::host_call"; },
      [](const External&) { return "weir::external"; }, [](const GraphLaunch&) { return "weir::Graph::launch"; },
      [](const Collective& collective) { return collective.call; });
}

/// For more, and for as many again, that many children cost no more than their nodes.
void make_room(std::vector<FormNode>& nodes, std::size_t more) {
  if (nodes.capacity() - nodes.size() < more) nodes.reserve(std::max(nodes.size() + more, 2 * nodes.capacity()));
}

/// How many graphs and bodies its innermost node is inside of.
std::uint32_t levels_of(const GraphForm& form) {
  std::uint32_t most = 0;
  std::vector<std::uint32_t> levels;
  levels.reserve(form.nodes.size());
  for (const FormNode& node : form.nodes) {
    levels.push_back(node.parent < 0 ? 0 : levels[static_cast<std::size_t>(node.parent)] + 1);
    most = std::max(most, levels.back());
  }
  return most;
}

}  // namespace

NodeKind kind_of(const Op& op) {
  return visit_op(
      op, [](const Launch&) { return NodeKind::launch; }, [](const Copy&) { return NodeKind::copy; },
      [](const Fill&) { return NodeKind::fill; }, [](const Alloc&) { return NodeKind::alloc; },
      [](const Free&) { return NodeKind::free; }, [](const Record&) { return NodeKind::record; },
      [](const Wait&) { return NodeKind::wait; }, [](const HostCall&) { return NodeKind::host_call; },
      [](const External&) { return NodeKind::external; }, [](const GraphLaunch&) { return NodeKind::graph; },
      [](const Collective&) { return NodeKind::launch; });
}

std::uint32_t Capture::add(Recorder& recorder, NodeKind kind, std::shared_ptr<const Payload> payload,
                           SourceLocation where) {
  FormNode node;
  node.kind = kind;
  node.depends = recorder.tails;
  node.parent = scope.parent;
  node.branch = scope.branch;
  node.device = recorder.device;
  node.priority = recorder.priority;
  if (!by_hand) {
    node.stream = recorder.id;
    node.stream_name = recorder.name;
  }
  node.where = where;
  calls = calls || kind == NodeKind::host_call;
  const auto index = static_cast<std::uint32_t>(form.nodes.size());
  recorder.tails.reserve(1);
  if (payload) {  // what may fail comes first
    for (const Storage* storage : payload->arrays()) {
      if (storage->captured_in == id) kept.try_emplace(storage->buffer, 0);
    }
  }
  node.payload = NodePayload(std::move(payload));
  form.nodes.push_back(std::move(node));
  if (const Payload* added = form.nodes.back().payload.get()) {
    for (const Storage* storage : added->arrays()) {
      if (storage->captured_in == id) ++kept[storage->buffer];
    }
  }
  recorder.tails.assign(1, index);
  return index;
}

std::uint32_t Capture::add_to_unit(Recorder& recorder, std::uint64_t unit, std::shared_ptr<const Payload> payload,
                                   SourceLocation where) {
  if (unit == 0) return add(recorder, NodeKind::launch, std::move(payload), where);
  if (last_unit.number != unit) last_unit = {unit, {}};
  auto& streams = last_unit.before;
  const auto known =
      std::find_if(streams.begin(), streams.end(), [&](const auto& one) { return one.first == &recorder; });
  std::vector<std::uint32_t> tails = recorder.tails;
  if (known == streams.end()) {
    streams.emplace_back(&recorder, std::move(tails));
    return add(recorder, NodeKind::launch, std::move(payload), where);
  }
  tails.reserve(tails.size() + 1);
  std::vector<std::uint32_t> before = known->second;
  recorder.tails.swap(before);
  try {
    const std::uint32_t node = add(recorder, NodeKind::launch, std::move(payload), where);
    tails.push_back(node);
    recorder.tails.swap(tails);
    return node;
  } catch (...) {
    recorder.tails.swap(before);
    throw;
  }
}

void Capture::complete(std::uint32_t node, NodeKind kind, std::shared_ptr<const Payload> payload) {
  for (const Storage* storage : payload->arrays()) {
    if (storage->captured_in == id) ++kept[storage->buffer];
  }
  form.nodes[node].kind = kind;
  form.nodes[node].payload = NodePayload(std::move(payload));
}

void Capture::take_back(const FormNode& node) noexcept {
  if (!node.payload) return;
  const auto* alloc = std::get_if<Alloc>(&node.payload->op());
  const auto* free = std::get_if<Free>(&node.payload->op());
  for (Storage* storage : node.payload->arrays()) {
    if (storage->captured_in != id) continue;
    --kept[storage->buffer];
    if (free != nullptr && free->buffer == storage->buffer) {
      freed_by.erase(storage->buffer);
      storage->freed = false;
    }
    if (alloc != nullptr && alloc->buffer == storage->buffer) {
      made_by.erase(storage->buffer);
      storage->captured_in = 0;  // if it is still somebody's, it is as one made elsewhere
    }
  }
}

void Recorder::submit(const Command& command) {
  if (edit != nullptr) return edit->take(command);
  std::optional<Child> child;
  if (const auto* launch = std::get_if<GraphLaunch>(&command.op)) {
    child = child_of(*launch->graph);
    const auto& nodes = child->form.nodes;
    const bool handed = std::any_of(nodes.begin(), nodes.end(), is_handed_collective);
    if (handed || std::any_of(nodes.begin(), nodes.end(), captured_rank_of)) {
      throw Error(Errc::capture_unsupported, "weir::Graph::launch", "stream '" + name + "'",
                  std::string("the graph has collectives among ") + (handed ? "GPUs" : "processes") +
                      ", which are in no graph inside of another one: capture them into this one, or launch the graph "
                      "into a stream that does not capture",
                  command.where);
    }
  }
  const LockGuard guard(captures_lock());
  if (capture == nullptr) {  // it ended while this call was on its way
    real->submit(command);
    return;
  }
  const char* operation = operation_of(command.op);
  capture->check_valid(operation, "stream '" + name + "'", command.where);
  capture->check_scope(*this, operation, command.where);
  if (const auto* mark = std::get_if<weir::Record>(&command.op)) return record(*mark->event, command.where);
  if (const auto* hold = std::get_if<weir::Wait>(&command.op)) return wait(*hold->event, command.where);
  if (const auto* call = std::get_if<Launch>(&command.op); call != nullptr && capture->calls && decline(*call)) return;
  if (child) {
    add_child(std::move(*child), command.where);
  } else {
    auto payload = std::make_shared<Payload>(command);
    try {
      capture->add(*this, kind_of(command.op), payload, command.where);
    } catch (...) {
      payload->give_function_back();  // the caller's again
      throw;
    }
    hand_to_driver(command, *payload);
  }
}

bool Recorder::with_driver() const { return driver != nullptr && capture->scope.parent < 0; }

/// The newest node, for the driver to capture.
void Recorder::hand_to_driver(const Command& command, Payload& payload) {
  if (!with_driver()) return;
  Command unwatched = command;
  unwatched.id = 0;  // nothing runs now
  try {
    real->submit(unwatched);
    driver->captured(capture->form, capture->form.nodes.size() - 1);
  } catch (const std::exception& exception) {
    payload.give_function_back();  // the caller's again
    const auto* error = dynamic_cast<const Error*>(&exception);
    capture->broken = error != nullptr ? *error
                                       : Error(Errc::capture_invalidated, operation_of(command.op),
                                               "stream '" + name + "'", exception.what(), command.where);
    throw;
  }
}

void Recorder::record(EventState& event, SourceLocation where) {
  const LockGuard guard(captures_lock());
  if (capture == nullptr) return real->record(event, where);
  capture->check_valid("weir::Stream::record", "stream '" + name + "'", where);
  capture->check_scope(*this, "weir::Stream::record", where);
  const std::uint64_t event_id = event.id.load(std::memory_order_relaxed) & ~captured_bit;
  if (event.timed) {
    add_event_node(weir::Record{&event, event_id}, where);
    capture->timed.emplace_back(&event, event_id);
  } else if (with_driver()) {
    real->record(event, where);
  }
  mark_event(*this, event, event_id);
}

void Recorder::wait(EventState& event, SourceLocation where) {
  const LockGuard guard(captures_lock());
  if (capture == nullptr) return real->wait(event, where);
  refuse_outside(event, ": wait before it begins, or use weir::wait_external", where);
}

std::unique_ptr<Signal> Recorder::wait_for_signal(const Command& command) {
  const LockGuard guard(captures_lock());
  if (capture == nullptr) return real->wait_for_signal(command);
  EventState& event = *std::get<Wait>(command.op).event;
  refuse_outside(event,
                 is_imported(event) ? ", by another process: wait before it begins"
                                    : ", and by another backend: wait before it begins",
                 command.where);
  return nullptr;
}

void Recorder::refuse_outside(EventState& event, const char* advice, SourceLocation where) {
  capture->check_valid("weir::Stream::wait", "stream '" + name + "'", where);
  if (!event.is_recorded()) return;  // R131: nothing to wait for
  const Error error(Errc::capture_isolation, "weir::Stream::wait", "stream '" + name + "'",
                    std::string("the event was recorded outside of the capture") + advice, where);
  capture->broken = error;
  throw Error(error);
}

void Recorder::add_event_node(const Op& op, SourceLocation where) {
  Command command;
  command.where = where;
  command.op = op;
  auto payload = std::make_shared<Payload>(command);
  capture->add(*this, kind_of(op), payload, where);
  hand_to_driver(command, *payload);
}

void check_nesting(const GraphForm& form, std::int32_t parent, std::uint32_t levels, const char* operation,
                   const std::string& object, SourceLocation where) {
  for (; parent >= 0; parent = form.nodes[static_cast<std::size_t>(parent)].parent) ++levels;
  if (levels <= most_nested) return;
  throw Error(Errc::not_supported, operation, object,
              "nodes would be inside of " + std::to_string(levels) + " graphs and bodies: at most " +
                  std::to_string(most_nested) + " can be nested",
              where);
}

/// As it is now, though another thread may change it next. Without the lock of captures, which an edit takes behind its own.
Recorder::Child Recorder::child_of(GraphState& graph) {
  const LockGuard guard(static_cast<CoreGraph&>(graph).edit_mutex);
  return {graph.form, graph.executable->beyond_form()};
}

void Recorder::add_child(Child&& child, SourceLocation where) {
  check_nesting(capture->form, capture->scope.parent, 1 + levels_of(child.form), "weir::Graph::launch",
                "stream '" + name + "'", where);
  for (const FormNode& node : child.form.nodes) capture->calls = capture->calls || node.kind == NodeKind::host_call;
  make_room(capture->form.nodes, child.form.nodes.size() + 1);
  const auto parent = capture->add(*this, NodeKind::graph, nullptr, where);
  capture->form.nodes[parent].beyond = std::move(child.beyond);
  insert_form(capture->form, std::move(child.form), parent);
  if (with_driver()) driver->capture_inside(capture->form, parent);
}

void insert_form(GraphForm& form, GraphForm&& child, std::uint32_t parent) {
  const auto shift = static_cast<std::uint32_t>(form.nodes.size());
  make_room(form.nodes, child.nodes.size());
  for (FormNode& node : child.nodes) {
    for (std::uint32_t& before : node.depends) before += shift;
    node.branch = node.parent < 0 ? 0 : node.branch;
    node.parent = node.parent < 0 ? static_cast<std::int32_t>(parent) : node.parent + static_cast<std::int32_t>(shift);
    form.nodes.push_back(std::move(node));
  }
}

void Capture::check_scope(const Recorder& recorder, const char* operation, SourceLocation where) {
  if (recorder.scope == scope) return;
  const Error error(Errc::capture_isolation, operation, "stream '" + recorder.name + "'",
                    "it has not joined the body of the conditional node: let it wait for an event recorded inside",
                    where);
  broken = error;
  throw Error(error);
}

std::string unjoined_stream(const Capture& capture, const Recorder& to) {
  std::vector<bool> joined(capture.form.nodes.size());
  std::vector<std::uint32_t> open = to.tails;
  while (!open.empty()) {
    const std::uint32_t node = open.back();
    open.pop_back();
    if (joined[node]) continue;
    joined[node] = true;
    const auto& before = capture.form.nodes[node].depends;
    open.insert(open.end(), before.begin(), before.end());
  }
  for (const Recorder* recorder : capture.recorders) {
    if (recorder->scope != capture.scope) continue;
    for (const std::uint32_t node : recorder->tails) {
      if (!joined[node]) return recorder->name;
    }
  }
  return {};
}

}  // namespace weir::detail

namespace weir {

using namespace detail;

void record_external(StreamRef stream, EventRef event, SourceLocation where) {
  const StreamState& state = state_of(stream, "weir::record_external", where);
  const LockGuard guard(captures_lock());
  Recorder* recorder = state.recorder.load(std::memory_order_relaxed);
  if (recorder == nullptr) return stream.record(event, where);
  EventState& target = state_of(event, "weir::record_external", where);
  if (target.backend != state.device->backend || target.device != state.device->index) {
    throw Error(Errc::wrong_device, "weir::record_external", describe(state), "the event is of another device", where);
  }
  recorder->capture->check_valid("weir::record_external", describe(state), where);
  recorder->capture->check_scope(*recorder, "weir::record_external", where);
  recorder->add_event_node(Record{&target, event.id()}, where);
}

void wait_external(StreamRef stream, EventRef event, SourceLocation where) {
  const StreamState& state = state_of(stream, "weir::wait_external", where);
  const LockGuard guard(captures_lock());
  Recorder* recorder = state.recorder.load(std::memory_order_relaxed);
  if (recorder == nullptr) return stream.wait(event, where);
  EventState& target = state_of(event, "weir::wait_external", where);
  if (target.backend != state.device->backend) {
    throw Error(Errc::not_supported, "weir::wait_external", describe(state), "the event is of another backend", where);
  }
  recorder->capture->check_valid("weir::wait_external", describe(state), where);
  recorder->capture->check_scope(*recorder, "weir::wait_external", where);
  recorder->add_event_node(Wait{&target, event.id()}, where);
}

}  // namespace weir
