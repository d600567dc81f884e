// Changes to instantiated graphs.
#include <weir/graph_update.hpp>

#include <algorithm>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "core/checks.hpp"
#include "core/collectives/captured_call.hpp"
#include "core/graphs/capture.hpp"
#include "core/graphs/graph_state.hpp"
#include "thread_safety.hpp"

namespace weir {

using namespace detail;

namespace detail {

namespace {

[[noreturn]] void refuse_change(const std::string& object, const char* operation, SourceLocation where,
                                const Error& error) {
  throw Error(error.errc(), operation, object,
              std::string("the graph stays as it was, for its device refused the change (") + error.what() +
                  "): ask for what the device can do, or make another graph",
              where, std::current_exception());
}

/// Puts a changed node into the executable, or the form back as it was.
void apply_change(CoreGraph& graph, std::size_t index, FormNode changed, const char* operation, SourceLocation where) {
  FormNode& node = graph.form.nodes[index];
  // First, as nothing fails once the change is made.
  if (node.payload && node.payload.get() != changed.payload.get())
    keep_until_launched_work_is_done(graph, *node.payload);
  std::swap(node, changed);
  try {
    graph.executable->update(graph.form, index);
    observe_change(graph, index);
  } catch (const Error& error) {
    std::swap(node, changed);
    refuse_change("node '" + name_of(node) + "'", operation, where, error);
  } catch (...) {
    std::swap(node, changed);
    throw;
  }
}

[[noreturn]] void refuse_kind(const FormNode& node, NodeKind wanted, const char* operation, SourceLocation where) {
  throw Error(Errc::invalid_value, operation, "node '" + name_of(node) + "'",
              "it is a node of kind " + std::string(to_text(node.kind)) + ", not " + std::string(to_text(wanted)),
              where);
}

/// Why a node cannot do what one of another graph does; empty if it can.
std::string difference(const FormNode& here, const FormNode& there) {
  const auto numbers = [](std::vector<std::uint32_t> nodes) {
    std::sort(nodes.begin(), nodes.end());
    std::string text = nodes.empty() ? "none" : "";
    for (const std::uint32_t node : nodes) text += (text.empty() ? "" : ", ") + std::to_string(node);
    return text;
  };
  if (here.kind != there.kind) {
    return "it is of kind " + std::string(to_text(here.kind)) + " here and of kind " +
           std::string(to_text(there.kind)) + " there";
  }
  if (here.device != there.device) return "it is on another device there";
  if (here.parent != there.parent || here.branch != there.branch) return "it is inside of another node there";
  if (numbers(here.depends) != numbers(there.depends)) {
    return "it depends on nodes " + numbers(here.depends) + " here and on " + numbers(there.depends) + " there";
  }
  if (here.condition.kind != there.condition.kind || here.condition.bodies != there.condition.bodies) {
    return "it has other bodies there";
  }
  if (here.condition.value != there.condition.value) return "its condition is in other memory there";
  if (here.beyond != there.beyond) return "it holds what another library captured";
  if (here.payload.get() == there.payload.get()) return {};
  const auto stays = [](const FormNode& node) {
    return is_handed_collective(node) || captured_rank_of(node) != nullptr;
  };
  if (stays(here) || stays(there)) {
    return "a collective among GPUs or processes is not exchanged: capture the graph again";
  }
  switch (here.kind) {
    case NodeKind::alloc:
    case NodeKind::free: return "its memory is the graph's own, and the other graph has other memory";
    case NodeKind::record:
    case NodeKind::wait: {
      const auto event = [](const FormNode& node) {
        const Op& op = node.payload->op();
        const auto* record = std::get_if<Record>(&op);
        return record != nullptr ? record->event_id : std::get<Wait>(op).event_id;
      };
      return event(here) == event(there) ? "" : "it is about another event there";
    }
    case NodeKind::external: return "what another library captured cannot be exchanged";
    default: return {};
  }
}

/// Throws unless every node can do what the one of the same number does in the other graph.
void check_alike(const CoreGraph& graph, const GraphForm& other, const char* operation, SourceLocation where) {
  const std::string object = "graph on " + graph.on->name;
  const std::size_t count = graph.form.nodes.size();
  for (std::size_t i = 0; i < std::min(count, other.nodes.size()); ++i) {
    const std::string why = difference(graph.form.nodes[i], other.nodes[i]);
    if (why.empty()) continue;
    throw Error(Errc::invalid_value, operation, object,
                "node " + std::to_string(i) + ", '" + name_of(graph.form.nodes[i]) + "': " + why +
                    ": only graphs of one topology are updated as a whole",
                where);
  }
  if (count == other.nodes.size()) return;
  throw Error(Errc::invalid_value, operation, object,
              "it has " + std::to_string(count) + " nodes and the other " + std::to_string(other.nodes.size()) +
                  ": only graphs of one topology are updated as a whole",
              where);
}

bool same_line(SourceLocation a, SourceLocation b) { return a.line() == b.line() && a.file_name() == b.file_name(); }

bool same_memory(std::span<const Region> a, std::span<const Region> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

EditStream::EditStream(DeviceState& on)
    : device(on.index), stream(Device(&on), StreamOptions{.blocking = false, .name = "graph update"}) {
  const LockGuard guard(captures_lock());
  capture.by_hand = true;
  recorder = &open_recorder(capture, stream);
  capture.origin = recorder;
}
EditStream::~EditStream() {
  const LockGuard guard(captures_lock());
  close_recorders(capture, true);
}

namespace {

/// A graph may have nodes on other devices than its own: of streams that joined its capture.
WEIR_NOT_ANALYSED EditStream& edit_stream_of(CoreGraph& graph, int device) {
  for (const auto& one : graph.edit_streams) {
    if (one->device == device) return *one;
  }
  DeviceState* on = graph.on;
  for (DeviceState* other : Runtime::get().devices()) {
    if (other->backend == on->backend && other->index == device) on = other;
  }
  graph.edit_streams.push_back(std::make_unique<EditStream>(*on));
  return *graph.edit_streams.back();
}

}  // namespace

// An edit holds the lock from its beginning to its end; its class is in a public header, where the analysis is not known.

WEIR_NOT_ANALYSED GraphEdit::GraphEdit(const Graph& graph, Node node, NodeKind kind, const char* operation,
                                       SourceLocation where)
    : graph_(graph_of(graph, operation, where)), node_(node.index()), operation_(operation), where_(where) {
  UniqueLock lock(graph_.edit_mutex);
  const FormNode& form = node_of(graph_, node, operation, where);
  const bool same_kind = form.kind == kind || (kind == NodeKind::host_call && form.kind == NodeKind::external);
  if (!where_) where_ = form.where;
  if (!same_kind || !form.payload) refuse_kind(form, kind, operation, where_);
  const auto* const launch = std::get_if<Launch>(&form.payload->op());
  if (launch != nullptr && is_collective(*launch)) {
    throw Error(Errc::not_supported, operation, "node '" + name_of(form) + "'",
                "a collective is not exchanged: capture the graph again", where_);
  }
  edit_stream_of(graph_, form.device).recorder->edit = this;
  lock.release();
}

WEIR_NOT_ANALYSED GraphEdit::~GraphEdit() {
  edit_stream_of(graph_, graph_.form.nodes[node_].device).recorder->edit = nullptr;
  graph_.edit_mutex.unlock();
}

WEIR_NOT_ANALYSED StreamRef GraphEdit::stream() const {
  return edit_stream_of(graph_, graph_.form.nodes[node_].device).stream;
}

Extent GraphEdit::extent() const {
  const FormNode& node = graph_.form.nodes[node_];
  const auto& launch = std::get<Launch>(node.payload->op());
  if (launch.kernel->rank == 0) {
    throw Error(Errc::invalid_value, operation_, "node '" + name_of(node) + "'",
                "it runs over blocks: pass a kernel that takes a weir::Block, or an extent for this one", where_);
  }
  return Extent{launch.extent, launch.block, launch.name};
}

BlockExtent GraphEdit::block_extent() const {
  const FormNode& node = graph_.form.nodes[node_];
  const auto& launch = std::get<Launch>(node.payload->op());
  if (launch.kernel->rank != 0) {
    throw Error(Errc::invalid_value, operation_, "node '" + name_of(node) + "'",
                "it does not run over blocks: pass a kernel that takes an index, or a weir::BlockExtent for this one",
                where_);
  }
  return BlockExtent{launch.extent, launch.thread_shape, launch.shared_bytes, launch.name};
}

const void* GraphEdit::functor(std::string_view type) const {
  const auto& launch = std::get<Launch>(graph_.form.nodes[node_].payload->op());
  const std::string_view name = launch.kernel->name;
  const bool same = name.data() == type.data() && name.size() == type.size();  // nearly always one constant
  if (same || name == type) return launch.closure;
  throw Error(Errc::invalid_value, operation_, "node '" + std::string(launch.kernel->name) + "'",
              "its kernel is no " + std::string(type) + " any more: pass the kernel, too", where_);
}

/// Other arguments of the same launch, without a new payload.
bool GraphEdit::take_arguments(const Command& command) {
  const FormNode& node = graph_.form.nodes[node_];
  if (!graph_.executable->copies_arguments() || !node.payload.sole()) return false;
  const auto* launch = std::get_if<Launch>(&command.op);
  const auto* before = std::get_if<Launch>(&node.payload->op());
  if (launch == nullptr || before == nullptr || launch->kernel != before->kernel || launch->kernel->copy != nullptr ||
      launch->name != before->name || launch->block != before->block || launch->extent != before->extent ||
      launch->thread_shape != before->thread_shape || launch->shared_bytes != before->shared_bytes ||
      !same_line(command.where, node.payload->where()) || !same_memory(command.uses, node.payload->uses())) {
    return false;
  }
  // The form's payloads are made here, as objects that may change.
  auto& payload = const_cast<Payload&>(*node.payload);
  return graph_.executable->update_arguments(node_, payload, launch->closure);
}

void GraphEdit::take(const Command& command) {
  taken_ = true;
  if (take_arguments(command)) return;
  const auto payload = std::make_shared<Payload>(command);
  FormNode changed = graph_.form.nodes[node_];
  changed.payload = NodePayload(payload);
  if (where_) changed.where = where_;
  const SourceLocation changed_at = changed.where;
  try {
    apply_change(graph_, node_, std::move(changed), operation_, changed_at);
  } catch (...) {
    payload->give_function_back();  // the caller's again
    throw;
  }
}

WEIR_NOT_ANALYSED ArgumentEdit::ArgumentEdit(const Graph& of, Node node, const Kernel& kernel) noexcept {
  auto* const graph = static_cast<CoreGraph*>(of.state());
  const bool plain = thread_state == ThreadState::free && hooks.load(std::memory_order_relaxed) == 0;
  if (!plain || graph == nullptr || !graph->executable->copies_arguments()) return;
  if (node.graph() != graph->family || node.index() >= graph->form.nodes.size()) return;
  graph->edit_mutex.lock();
  graph_ = graph;
  node_ = node.index();
  const FormNode& form = graph->form.nodes[node_];
  if (form.kind != NodeKind::launch || form.device != graph->on->index || !form.payload.sole()) return;
  const Payload& payload = *form.payload;
  const auto* const launch = std::get_if<Launch>(&payload.op());
  if (launch == nullptr || launch->kernel != &kernel || !same_line(form.where, payload.where())) return;
  closure_ = launch->closure;
  uses_ = payload.uses().data();
  device_ = graph->on;
}

WEIR_NOT_ANALYSED bool ArgumentEdit::take(const void* closure) {
  auto& payload = const_cast<Payload&>(*graph_->form.nodes[node_].payload);  // as above
  const bool taken = graph_->executable->update_arguments(node_, payload, closure);
  end();
  return taken;
}

WEIR_NOT_ANALYSED void ArgumentEdit::end() noexcept { std::exchange(graph_, nullptr)->edit_mutex.unlock(); }

void GraphEdit::check_taken() const {
  if (taken_) return;
  throw Error(Errc::invalid_value, operation_, "node '" + name_of(graph_.form.nodes[node_]) + "'",
              "there would be nothing to do: disable() it", where_);
}

}  // namespace detail

void Graph::update(const Graph& other, SourceLocation where) {
  constexpr const char* operation = "weir::Graph::update";
  CoreGraph& graph = graph_of(*this, operation, where);
  CoreGraph& model = graph_of(other, operation, where);
  if (&graph == &model) return;
  if (graph.on != model.on) {
    throw Error(Errc::wrong_device, operation, "graph on " + graph.on->name, "the other is on " + model.on->name,
                where);
  }
  const auto refuse_foreign = [&](CoreGraph& one) {
    if (!one.executable->does_more()) return;
    throw Error(Errc::not_supported, operation, "graph on " + graph.on->name,
                "what another library captured cannot be exchanged: capture it once more", where);
  };
  GraphForm wanted;
  {
    const LockGuard guard(model.edit_mutex);
    refuse_foreign(model);
    wanted = model.form;
  }
  const LockGuard guard(graph.edit_mutex);
  refuse_foreign(graph);
  check_alike(graph, wanted, operation, where);
  std::vector<NodeChange> changes;
  for (std::size_t i = 0; i < wanted.nodes.size(); ++i) {
    const FormNode& here = graph.form.nodes[i];
    FormNode& there = wanted.nodes[i];
    const bool does_other =
        here.kind != NodeKind::record && here.kind != NodeKind::wait && here.payload.get() != there.payload.get();
    if (!does_other && here.enabled == there.enabled) continue;
    changes.push_back({i, here});
    FormNode& changed = changes.back().other;
    if (does_other) changed.payload = std::move(there.payload);
    changed.enabled = there.enabled;
    changed.where = there.where;
    if (does_other && here.payload) keep_until_launched_work_is_done(graph, *here.payload);
  }
  try {
    graph.executable->update_all(graph.form, changes);
  } catch (const Error& error) {
    refuse_change("graph on " + graph.on->name, operation, where, error);
  }
  graph.note_communicators();
  for (const NodeChange& change : changes) observe_change(graph, change.node);
}

void Graph::resize(Node node, const Shape& extent, SourceLocation where) {
  constexpr const char* operation = "weir::Graph::resize";
  CoreGraph& graph = graph_of(*this, operation, where);
  const LockGuard guard(graph.edit_mutex);
  const FormNode& form = node_of(graph, node, operation, where);
  if (form.kind != NodeKind::launch) refuse_kind(form, NodeKind::launch, operation, where);
  auto launch = std::get<Launch>(form.payload->op());
  if (is_collective(launch)) {
    throw Error(Errc::not_supported, operation, "node '" + name_of(form) + "'",
                "a collective has the extent of its arrays: capture it again with others", where);
  }
  if (launch.kernel->rank == 0) {
    throw Error(Errc::invalid_value, operation, "node '" + name_of(form) + "'",
                "it runs over blocks: update() it with a weir::BlockExtent", where);
  }
  const bool any = check_extent(extent, launch.kernel->rank, launch.block, {launch.kernel->name}, operation, where);
  launch.extent = any ? extent : Shape::of(launch.kernel->rank, std::array<std::size_t, max_rank>{}.data());
  Command command;
  command.where = form.payload->where();
  command.uses = form.payload->uses();
  command.op = launch;
  FormNode changed = form;
  changed.payload = NodePayload(std::make_shared<const Payload>(command));
  apply_change(graph, node.index(), std::move(changed), operation, where);
}

bool Graph::enabled(Node node, SourceLocation where) const {
  constexpr const char* operation = "weir::Graph::enabled";
  return node_of(graph_of(*this, operation, where), node, operation, where).enabled;
}

void Graph::set_enabled(Node node, bool enabled, SourceLocation where) {
  const char* operation = enabled ? "weir::Graph::enable" : "weir::Graph::disable";
  CoreGraph& graph = graph_of(*this, operation, where);
  const LockGuard guard(graph.edit_mutex);
  const FormNode& form = node_of(graph, node, operation, where);
  if (form.kind == NodeKind::graph || form.kind == NodeKind::conditional) {
    throw Error(Errc::not_supported, operation, "node '" + name_of(form) + "'",
                "a node with nodes inside stays enabled: enable and disable those", where);
  }
  FormNode changed = form;
  changed.enabled = enabled;
  apply_change(graph, node.index(), std::move(changed), operation, where);
}

}  // namespace weir
