// Events inside captures: fork and join.
#include "core/graphs/marks.hpp"
#include "thread_safety.hpp"

#include <algorithm>
#include <cstring>
#include <unordered_map>

namespace weir::detail {

namespace {

struct Mark {
  Capture* capture = nullptr;
  ScopeOf scope;
  std::vector<std::uint32_t> nodes;
};
/// By the event's id.
WEIR_NEEDS(captures_lock()) std::unordered_map<std::uint64_t, Mark>& marks() {
  static auto& all = *new std::unordered_map<std::uint64_t, Mark>;
  return all;
}

void append_new(std::vector<std::uint32_t>& to, const std::vector<std::uint32_t>& from) {
  for (const std::uint32_t node : from) {
    if (std::find(to.begin(), to.end(), node) == to.end()) to.push_back(node);
  }
}

void break_capture(Capture& capture, const Error& error) {
  if (!capture.broken) capture.broken = error;
}

}  // namespace

void mark_event(Recorder& recorder, EventState& event, std::uint64_t id) {
  marks()[id] = Mark{recorder.capture, recorder.capture->scope, recorder.tails};
  event.id.store(id | captured_bit, std::memory_order_release);
}

void forget_marks(const Capture& capture) {
  std::erase_if(marks(), [&](const auto& mark) { return mark.second.capture == &capture; });
}

void keep_timed_events(Capture& capture) {
  for (const EventRef event : capture.timed) {
    std::uint64_t captured = event.id() | captured_bit;
    event.state()->id.compare_exchange_strong(captured, event.id());
  }
}

void forget_captured_record(EventRef event) {
  const LockGuard guard(captures_lock());
  marks().erase(event.id());
  std::uint64_t captured = event.id() | captured_bit;
  event.state()->id.compare_exchange_strong(captured, event.id());
}

void refuse_captured_event(EventRef event, const char* operation, SourceLocation where) {
  const LockGuard guard(captures_lock());
  const auto found = marks().find(event.id());
  if (found == marks().end()) {
    throw Error(Errc::invalid_value, operation, "event",
                "its last record was in a capture that has ended: record it again", where);
  }
  const Error error(Errc::captured_event, operation, "event",
                    "its last record was captured, so that nothing of it runs before the graph is launched", where);
  // R118: asking for a time is an error like the others, but leaves the capture as it is.
  if (std::strcmp(operation, "weir::elapsed") != 0) break_capture(*found->second.capture, error);
  throw Error(error);
}

void wait_captured(StreamRef stream, EventRef event, SourceLocation where) {
  constexpr const char* operation = "weir::Stream::wait";
  const LockGuard guard(captures_lock());
  StreamState& state = *stream.state();
  const auto found = marks().find(event.id());
  if (found == marks().end()) {
    throw Error(Errc::invalid_value, operation, describe(state),
                "the event's last record was in a capture that has ended: record it again", where);
  }
  const Mark mark = found->second;
  Capture& capture = *mark.capture;
  capture.check_valid(operation, describe(state), where);
  Recorder* recorder = state.recorder.load(std::memory_order_relaxed);
  if (state.legacy) {
    const Error error(Errc::capture_implicit, operation, describe(state), "the legacy stream cannot join a capture",
                      where);
    break_capture(capture, error);
    throw Error(error);
  }
  if (recorder != nullptr && recorder->capture != &capture) {
    const Error error(Errc::capture_merge, operation, describe(state),
                      "the event was recorded in another capture than this stream's: both are discarded", where);
    break_capture(capture, error);
    break_capture(*recorder->capture, error);
    throw Error(error);
  }
  if (mark.scope != capture.scope) {
    const Error error(Errc::capture_isolation, operation, describe(state),
                      "the event was recorded in another body of a conditional node", where);
    break_capture(capture, error);
    throw Error(error);
  }
  if (recorder == nullptr) {
    recorder = &open_recorder(capture, stream);
    if (capture.origin->driver != nullptr) {
      recorder->driver = recorder->real->driver_capture();
      recorder->driver->join_capture(*capture.origin->real, where);
    }
  }
  if (recorder->driver != nullptr && capture.scope.parent < 0) recorder->real->wait(*event.state(), where);
  if (recorder->scope !=
      capture.scope) {  // it joins the body that is being captured; what it did outside, it did before
    recorder->scope = capture.scope;
    recorder->tails.clear();
  }
  append_new(recorder->tails, mark.nodes);
}

}  // namespace weir::detail
