// Conditional nodes in captures.
#include <weir/graph_control.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

namespace {

Recorder& recorder_of(StreamRef stream, const char* operation, SourceLocation where) {
  StreamState& state = state_of(stream, operation, where);
  if (Recorder* recorder = state.recorder.load(std::memory_order_relaxed)) return *recorder;
  throw Error(Errc::not_capturing, operation, describe(state), "conditional nodes exist in graphs only: capture first",
              where);
}

Condition::Kind kind_of(ControlKind kind) {
  switch (kind) {
    case ControlKind::if_: return Condition::Kind::if_;
    case ControlKind::if_else: return Condition::Kind::if_else;
    case ControlKind::switch_: return Condition::Kind::switch_;
    case ControlKind::while_: return Condition::Kind::while_;
  }
  return Condition::Kind::if_;
}

/// A conditional node that is complete, and streams that joined the capture inside.
void hand_to_driver(Capture& capture, Recorder& recorder, std::size_t node, std::size_t recorders) {
  if (recorder.driver == nullptr || capture.scope.parent >= 0) return;
  try {
    recorder.driver->capture_inside(capture.form, node);
    for (std::size_t i = recorders; i < capture.recorders.size(); ++i) {
      capture.recorders[i]->driver->capture_behind(*recorder.real);
    }
  } catch (const Error& error) {
    if (!capture.broken) capture.broken = error;
    throw;
  }
}

}  // namespace

ControlScope::ControlScope(StreamRef stream, const ArrayBase<std::int32_t>& condition, ControlKind kind,
                           std::size_t bodies, const char* operation, SourceLocation where)
    : stream_(stream), operation_(operation), bodies_(bodies), where_(where) {
  const LockGuard guard(captures_lock());
  Recorder& recorder = recorder_of(stream, operation, where);
  Capture& capture = *recorder.capture;
  capture.check_valid(operation, describe(*stream.state()), where);
  capture.check_scope(recorder, operation, where);
  check_nesting(capture.form, capture.scope.parent, 1, operation, describe(*stream.state()), where);
  Storage& storage = require(condition.storage(), operation, where);
  if (condition.size() == 0) {
    throw Error(Errc::wrong_shape, operation, "the condition", "it has no element", where);
  }
  use(storage, stream, true, operation, where);
  const Region region{condition.data(), sizeof(std::int32_t), 1, 0, storage.buffer, Access::read};
  Command command;
  command.where = where;
  command.uses = std::span<const Region>(&region, 1);
  command.op = Wait{nullptr, 0};  // of no event: the payload keeps the array alive, the node does the rest
  node_ = capture.add(recorder, NodeKind::conditional, std::make_shared<const Payload>(command), where);
  capture.form.nodes[node_].condition = {kind_of(kind), condition.data(), static_cast<std::uint32_t>(bodies)};
  capture_ = capture.id;
  recorders_ = capture.recorders.size();
  outer_parent_ = capture.scope.parent;
  outer_branch_ = capture.scope.branch;
}

void ControlScope::begin_body(std::uint32_t number) {
  const LockGuard guard(captures_lock());
  Recorder& recorder = recorder_of(stream_, operation_, where_);
  Capture& capture = *recorder.capture;
  std::vector<Capture::Outside> outside;
  for (Recorder* one : capture.recorders) outside.push_back({one, one->scope, one->tails});
  capture.outside.push_back(std::move(outside));
  capture.scope = {static_cast<std::int32_t>(node_), number};
  recorder.scope = capture.scope;
  recorder.tails.clear();
}

void ControlScope::end_body() {
  const LockGuard guard(captures_lock());
  Recorder& recorder = recorder_of(stream_, operation_, where_);
  Capture& capture = *recorder.capture;
  const std::string loose = capture.by_hand ? std::string() : unjoined_stream(capture, recorder);
  const std::vector<Capture::Outside> outside = std::move(capture.outside.back());
  capture.outside.pop_back();
  capture.scope = {outer_parent_, outer_branch_};
  for (Recorder* one : capture.recorders) {
    const auto before =
        std::find_if(outside.begin(), outside.end(), [&](const auto& saved) { return saved.recorder == one; });
    one->scope = before != outside.end() ? before->scope : capture.scope;
    one->tails =
        before != outside.end() ? before->tails : std::vector<std::uint32_t>{static_cast<std::uint32_t>(node_)};
  }
  if (loose.empty()) {
    if (--bodies_ == 0) hand_to_driver(capture, recorder, node_, recorders_);
    return;
  }
  const Error error(Errc::capture_unjoined, operation_, "stream '" + loose + "'",
                    "it joined inside a body and was not joined back there", where_);
  if (!capture.broken) capture.broken = error;
  throw Error(error);
}

/// After an exception of a body.
ControlScope::~ControlScope() {
  const LockGuard guard(captures_lock());
  const StreamState* state = stream_.state();
  Recorder* recorder = state->recorder.load(std::memory_order_relaxed);
  if (recorder == nullptr || recorder->capture == nullptr || recorder->capture->id != capture_) return;
  Capture& capture = *recorder->capture;
  if (capture.scope.parent != static_cast<std::int32_t>(node_)) return;
  for (const Capture::Outside& saved : capture.outside.back()) {
    saved.recorder->scope = saved.scope;
    saved.recorder->tails = saved.tails;
  }
  capture.outside.pop_back();
  capture.scope = {outer_parent_, outer_branch_};
}

}  // namespace weir::detail
