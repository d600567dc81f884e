// Captures begin and end; what they forbid.
#include "core/graphs/capture.hpp"

#include <algorithm>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "core/graphs/graph_state.hpp"
#include "core/graphs/legacy_guard.hpp"
#include "core/graphs/marks.hpp"
#include "core/observers.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

std::atomic<int> active_captures{0};

namespace {

/// Whether the thread has begun a capture that may not have ended.
thread_local bool thread_captures = false;

struct Captures {
  std::vector<std::unique_ptr<Capture>> active;
  std::vector<Recorder*> free_recorders;  ///< has room for all: recorders are given back without fail
  std::size_t recorders = 0;
  std::uint64_t next = 1;
};
WEIR_NEEDS(captures_lock()) Captures& captures() {
  static auto& all = *new Captures;
  return all;
}

std::string at_line(const Error& error) {
  const SourceLocation where = error.where();
  return where ? " at " + std::string(where.file_name()) + ":" + std::to_string(where.line()) : std::string();
}

[[noreturn]] void break_captures(const std::vector<Capture*>& broken, const Error& error) {
  for (Capture* capture : broken) {
    if (!capture->broken) capture->broken = error;
  }
  throw Error(error);
}

void tell_end(std::uint64_t graph, bool kept, SourceLocation where) noexcept {
  if (!watched(Watch::commands)) return;
  tell(Watch::commands, [&](Observer& observer) { observer.capture_ended(graph, kept, where); });
}

/// Takes a capture out of the active ones. What it held is given back by the caller, without the lock.
WEIR_NEEDS(captures_lock()) std::unique_ptr<Capture> take(Capture& capture, bool discard) {
  close_recorders(capture, discard);
  forget_marks(capture);
  auto& active = captures().active;
  const auto found = std::find_if(active.begin(), active.end(), [&](const auto& one) { return one.get() == &capture; });
  std::unique_ptr<Capture> taken = std::move(*found);
  active.erase(found);
  if (active_captures.fetch_sub(1, std::memory_order_release) == 1) hooks.fetch_and(~captures_watched);
  return taken;
}

/// The same for a capture that nobody ends.
WEIR_NEEDS(captures_lock()) std::unique_ptr<Capture> discard(Capture& capture) noexcept {
  tell_end(capture.id, false, {});
  if (capture.origin->driver != nullptr) {
    try {
      static_cast<void>(capture.origin->driver->end_capture(true, {}));
    } catch (const Error&) {
      // Whatever it throws, the driver's capture has ended.
    }
  }
  return take(capture, true);
}

}  // namespace

RecursiveMutex& captures_lock() {
  static auto& mutex = *new RecursiveMutex;
  return mutex;
}

std::uint64_t next_graph_id() {
  const LockGuard guard(captures_lock());
  return captures().next++;
}

Capture* find_capture(std::uint64_t id) {
  for (const auto& capture : captures().active) {
    if (capture->id == id) return capture.get();
  }
  return nullptr;
}

void Capture::check_valid(const char* operation, const std::string& object, SourceLocation where) const {
  if (!broken) return;
  throw Error(Errc::capture_invalidated, operation, object,
              "the capture is void since " + broken->operation() + at_line(*broken) + ": " + broken->what(), where,
              std::make_exception_ptr(*broken));
}

Recorder& open_recorder(Capture& capture, StreamRef stream) {
  // What may fail comes first: else the stream records, and nobody knows of it.
  StreamState& state = *stream.state();
  const bool guarded = state.blocking && !capture.by_hand;
  if (guarded) make_legacy_guard(*state.device);
  auto& free = captures().free_recorders;
  if (free.empty()) {
    free.reserve(captures().recorders + 1);
    free.push_back(new Recorder);
    ++captures().recorders;
  }
  Recorder& recorder = *free.back();
  recorder.name = state.name;
  capture.recorders.push_back(&recorder);
  free.pop_back();
  recorder.capture = &capture;
  recorder.stream = &state;
  recorder.id = stream.id();
  recorder.real = state.real;
  recorder.device = state.device->index;
  recorder.priority = state.priority;
  recorder.tails.clear();
  recorder.scope = capture.scope;
  recorder.driver = nullptr;
  state.recorder.store(&recorder, std::memory_order_release);
  state.queue = &recorder;
  if (guarded) guard_legacy(*state.device, 1);
  return recorder;
}

void close_recorders(Capture& capture, bool) {
  for (Recorder* recorder : capture.recorders) {
    if (StreamState* state = recorder->stream) {
      state->queue = recorder->real;
      state->recorder.store(nullptr, std::memory_order_release);
      if (state->blocking && !capture.by_hand) guard_legacy(*state->device, -1);
    }
    recorder->capture = nullptr;
    recorder->stream = nullptr;
    captures().free_recorders.push_back(recorder);
  }
  capture.recorders.clear();
}

void leave_capture(StreamState& stream) noexcept {
  std::unique_ptr<Capture> ended;
  const LockGuard guard(captures_lock());
  Recorder* recorder = stream.recorder.load(std::memory_order_relaxed);
  if (recorder == nullptr) return;
  Capture& capture = *recorder->capture;
  if (recorder == capture.origin && !capture.by_hand) {
    // Nobody could end it any more, and it forbids things to its thread.
    ended = discard(capture);
    return;
  }
  if (stream.blocking && !capture.by_hand) guard_legacy(*stream.device, -1);
  stream.recorder.store(nullptr, std::memory_order_release);
  stream.queue = stream.real;
  recorder->stream = nullptr;  // its nodes stay, and have to be joined all the same
}

namespace {
/// On this thread, whatever the wait is for (R117, R121, R148).
bool forbids_waits(const Capture& capture) {
  return capture.mode == CaptureMode::global ||
         (capture.mode == CaptureMode::per_thread && capture.thread == std::this_thread::get_id());
}
}  // namespace

void check_waits_slowly(StreamState* stream, DeviceState* device, bool devices, const char* operation,
                        const std::string& object, SourceLocation where) {
  const LockGuard guard(captures_lock());
  std::vector<Capture*> broken;
  Errc code = Errc::capture_unsupported;
  std::string reason = "this thread is capturing: wait after the end of the capture, or order streams by events";
  for (const auto& capture : captures().active) {
    bool hit = forbids_waits(*capture);
    if (hit && capture->thread != std::this_thread::get_id())
      reason = "another thread captures, with CaptureMode::global: wait after the end of its capture";
    for (const Recorder* recorder : capture->recorders) {
      const StreamState* state = recorder->stream;
      if (state == nullptr) continue;
      if (stream == state) {
        hit = true;
        reason = "the stream is capturing, so that nothing of it runs: wait after the end of the capture";
      } else if (devices && (device == nullptr || device == state->device)) {
        hit = true;
        reason = "stream '" + state->name + "' is capturing";
      } else if (stream != nullptr && stream->legacy && state->blocking && state->device == stream->device) {
        hit = true;
        code = Errc::capture_implicit;
        reason = "the legacy stream would wait for blocking stream '" + state->name + "', which is capturing";
      }
    }
    if (hit) broken.push_back(capture.get());
  }
  if (!broken.empty()) break_captures(broken, Error(code, operation, object, reason, where));
}

void ask_about_captured(StreamRef stream, Command& command) {
  {
    const LockGuard guard(captures_lock());
    const Recorder* recorder = stream.state()->recorder.load(std::memory_order_relaxed);
    if (recorder == nullptr || recorder->capture == nullptr || recorder->edit != nullptr) return;
    command.graph = recorder->capture->id;
    command.node = static_cast<std::uint32_t>(recorder->capture->form.nodes.size());
  }
  ask_policies(stream, command);
}

void note_elsewhere(const StreamState& stream, const char* operation, SourceLocation where) {
  if (!thread_captures) return;
  const LockGuard guard(captures_lock());
  bool any = false;
  for (const auto& capture : captures().active) {
    if (capture->thread != std::this_thread::get_id()) continue;
    any = true;
    if (capture->elsewhere++ > 0) continue;
    capture->first_elsewhere = std::string(operation) + " at " + where.file_name() + ":" +
                               std::to_string(where.line()) + " went to " + describe(stream);
  }
  thread_captures = any;
}

}  // namespace weir::detail

namespace weir {

using namespace detail;

namespace {

/// The legacy stream takes part in what blocking streams do: whether it captures has no answer. The captures go on (R125).
void refuse_implicit(const StreamState& state, const char* operation, SourceLocation where) {
  if (!state.legacy || active_captures.load(std::memory_order_relaxed) == 0) return;
  const LockGuard guard(captures_lock());
  if (state.device->blocking_captures == 0) return;
  throw Error(Errc::capture_implicit, operation, describe(state),
              "a blocking stream of its device captures, with which it is ordered: ask about that stream", where);
}

}  // namespace

bool is_capturing(StreamRef stream, SourceLocation where) {
  const StreamState& state = state_of(stream, "weir::is_capturing", where);
  refuse_implicit(state, "weir::is_capturing", where);
  return state.recorder.load(std::memory_order_acquire) != nullptr;
}

std::optional<CaptureInfo> capture_info(StreamRef stream, SourceLocation where) {
  const StreamState& state = state_of(stream, "weir::capture_info", where);
  refuse_implicit(state, "weir::capture_info", where);
  const LockGuard guard(captures_lock());
  const Recorder* recorder = state.recorder.load(std::memory_order_relaxed);
  if (recorder == nullptr) return std::nullopt;
  const Capture& capture = *recorder->capture;
  CaptureInfo info;
  info.id = capture.id;
  info.valid = !capture.broken;
  for (std::size_t i = 0; i < capture.form.nodes.size(); ++i) {
    info.nodes.push_back(info_of(capture.form.nodes[i], capture.id, i));
  }
  for (const std::uint32_t node : recorder->tails) info.behind.emplace_back(capture.id, node);
  return info;
}

void capture_begin(StreamRef stream, SourceLocation where) { capture_begin(stream, CaptureMode::per_thread, where); }

void capture_begin(StreamRef stream, CaptureMode mode, SourceLocation where) {
  constexpr const char* operation = "weir::capture_begin";
  StreamState& state = state_of(stream, operation, where);
  if (state.legacy) {
    throw Error(Errc::capture_unsupported, operation, describe(state),
                "the legacy stream cannot be captured: use a stream of your own", where);
  }
  const LockGuard guard(captures_lock());
  if (state.recorder.load(std::memory_order_relaxed) != nullptr) {
    throw Error(Errc::capture_unsupported, operation, describe(state), "it is capturing already: captures do not nest",
                where);
  }
  auto capture = std::make_unique<Capture>();
  capture->id = captures().next++;
  capture->thread = std::this_thread::get_id();
  capture->mode = mode;
  captures().active.reserve(captures().active.size() + 1);
  Recorder& recorder = open_recorder(*capture, stream);
  try {
    recorder.driver = state.real->driver_capture();
    if (recorder.driver != nullptr) recorder.driver->begin_capture(where);
  } catch (...) {
    close_recorders(*capture, true);
    throw;
  }
  capture->origin = &recorder;
  const std::uint64_t id = capture->id;
  captures().active.push_back(std::move(capture));
  active_captures.fetch_add(1, std::memory_order_release);
  thread_captures = true;
  hooks.fetch_or(captures_watched);
  if (watched(Watch::commands)) {
    tell(Watch::commands, [&](Observer& observer) { observer.capture_began(id, stream.id(), where); });
  }
}

namespace {
/// Why a capture gives no graph. Throws if it goes on: it ends elsewhere.
std::optional<Error> why_refused(Capture& capture, Recorder& recorder, const char* operation, const StreamState& state,
                                 SourceLocation where) {
  if (capture.thread != std::this_thread::get_id() && capture.mode != CaptureMode::relaxed) {
    return Error(Errc::capture_wrong_thread, operation, describe(state),
                 "another thread began this capture: it is discarded", where);
  }
  if (&recorder != capture.origin) {
    const Error unmatched(Errc::capture_unmatched, operation, describe(state),
                          "the capture began on stream '" + capture.origin->name + "', and ends there", where);
    break_captures({&capture}, unmatched);
  }
  if (capture.broken) {
    try {
      capture.check_valid(operation, describe(state), where);
    } catch (const Error& error) {
      return error;
    }
  }
  if (capture.open_collectives != 0) {
    return Error(Errc::capture_isolation, operation, describe(state),
                 "ranks of this process have yet to call a collective that was captured: all belong to one graph",
                 where);
  }
  if (const std::string loose = unjoined_stream(capture, *capture.origin); !loose.empty()) {
    return Error(Errc::capture_unjoined, operation, describe(state),
                 "stream '" + loose + "' joined the capture and was not joined back: let this stream wait for it",
                 where);
  }
  return std::nullopt;
}
}  // namespace

Graph capture_end(StreamRef stream, SourceLocation where) {
  constexpr const char* operation = "weir::capture_end";
  StreamState& state = state_of(stream, operation, where);
  std::unique_ptr<Capture> capture;
  std::optional<Error> refused;
  std::exception_ptr no_memory;
  void* driver_graph = nullptr;
  {
    const LockGuard guard(captures_lock());
    Recorder* recorder = state.recorder.load(std::memory_order_relaxed);
    if (recorder == nullptr || recorder->capture->by_hand) {
      throw Error(Errc::not_capturing, operation, describe(state), "no capture began on it", where);
    }
    Capture& active = *recorder->capture;
    try {
      refused = why_refused(active, *recorder, operation, state, where);
    } catch (const std::bad_alloc&) {
      no_memory = std::current_exception();  // nobody captures any more, as after other errors of this call
    }
    const bool lost = refused || no_memory;
    if (active.origin->driver != nullptr) {
      try {
        driver_graph = active.origin->driver->end_capture(lost, where);
      } catch (const Error& error) {
        refused.emplace(error);
      }
    }
    capture = take(active, lost || refused);
    if (!lost && !refused) keep_timed_events(*capture);
    tell_end(capture->id, !lost && !refused, where);
  }
  if (no_memory) std::rethrow_exception(no_memory);
  if (refused) throw Error(*refused);
  if (capture->form.nodes.empty() && capture->elsewhere > 0) {
    const std::size_t more = capture->elsewhere - 1;
    say_unasked("the capture on " + describe(state) + " recorded nothing, while " + capture->first_elsewhere +
                (more > 0 ? ", and " + std::to_string(more) + " more commands of its thread to other streams" : "") +
                ": the graph is empty");
  }
  return instantiate(std::move(capture->form), capture->id, *state.device, driver_graph, operation, where);
}

ScopedCapture::ScopedCapture(StreamArg stream, CaptureMode mode)
    : stream_(stream.stream),
      previous_device_(default_device(stream.where)),
      previous_stream_(
          get_stream(Device(state_of(stream.stream, "weir::capture_begin", stream.where).device), stream.where)) {
  set_stream(previous_stream_, stream.where);  // what needs memory comes first: below it cannot fail
  capture_begin(stream.stream, mode, stream.where);
  set_stream(stream.stream, stream.where);
  thread_data().default_device = stream_.state()->device;
  const LockGuard guard(captures_lock());
  capture_ = stream_.state()->recorder.load(std::memory_order_relaxed)->capture->id;
}

void ScopedCapture::end_current() noexcept {
  if (!std::exchange(current_, false)) return;
  ThreadData& thread = thread_data();
  thread.default_device = previous_device_.state();
  thread.current[position_of(*previous_stream_.state()->device)] = previous_stream_;
}

ScopedCapture::~ScopedCapture() {
  end_current();
  std::unique_ptr<Capture> discarded;
  const LockGuard guard(captures_lock());
  if (Capture* capture = find_capture(capture_)) discarded = discard(*capture);
}

Graph ScopedCapture::finish(SourceLocation where) {
  end_current();
  return capture_end(stream_, where);
}

}  // namespace weir
