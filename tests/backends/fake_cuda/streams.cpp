// Streams, events, host functions and waits for words.
#include <algorithm>
#include <cstdlib>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t room_pairs = 56;  // R213

/// WEIR_FAKE_CUDA_ROOM, or as a GPU has it (R3).
std::size_t room() {
  static const char* const asked = std::getenv("WEIR_FAKE_CUDA_ROOM");
  static const std::size_t places = asked != nullptr ? std::strtoul(asked, nullptr, 10) : 1021;
  return places;
}

StreamRef of_thread() {
  static thread_local std::map<int, StreamRef> own;
  StreamRef& stream = own[current_device()];
  if (!stream) {
    stream = std::make_shared<CUstream_st>();
    stream->device = current_device();
    stream->blocking = true;
    stream->id = world().next_id++;
    world().streams.emplace(stream.get(), stream);
  }
  return stream;
}

cudaError_t create(Call& call, cudaStream_t* made, unsigned flags, int priority) {
  if (made == nullptr || (flags & ~cudaStreamNonBlocking) != 0) return cudaErrorInvalidValue;
  wait_for_others_room(call);
  auto stream = std::make_shared<CUstream_st>();
  stream->device = current_device();
  world().devices[static_cast<std::size_t>(stream->device)]->started = true;
  stream->blocking = (flags & cudaStreamNonBlocking) == 0;
  stream->priority = std::clamp(priority, -5, 0);
  stream->id = world().next_id++;
  *made = stream.get();
  world().streams.emplace(stream.get(), stream);
  return cudaSuccess;
}

/// Whether the stream has nothing to do; the legacy one stands for all blocking ones (R25).
bool is_idle(Call& call, const CUstream_st& stream) {
  if (!is_done(call, stream.last)) return false;
  if (!stream.legacy) return true;
  for (const auto& [handle, other] : world().streams) {
    if (other->blocking && other->device == stream.device && !is_done(call, other->last)) return false;
  }
  return true;
}

bool is_live(cudaEvent_t event) { return event != nullptr && world().events.count(event) > 0; }

void check_thread(Call& call, const CUevent_st& event) {
  if (!event.capture || !event.capture->open || event.capture->owner == std::this_thread::get_id()) return;
  violate(call, "R211",
          "of an event that was recorded in capture " + std::to_string(event.capture->id) +
              ", which is another thread's and goes on");
}

/// What says no to a question about an event of a capture (R118, R119).
cudaError_t ask_event(Call& call, cudaEvent_t event) {
  if (!is_live(event)) return cudaErrorInvalidResourceHandle;
  check_thread(call, *event);
  if (event->capture) {
    if (!event->capture->open) return cudaErrorInvalidValue;
    return invalidate(*event->capture, cudaErrorCapturedEvent);
  }
  return unsafe(call);
}

}  // namespace

StreamRef find(Call& call, cudaStream_t handle) {
  World& all = world();
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return all.devices[static_cast<std::size_t>(current_device())]->legacy;
  }
  if (handle == cudaStreamPerThread) return of_thread();
  const auto found = all.streams.find(handle);
  if (found != all.streams.end()) return found->second;
  violate(call, "R11", "of a stream that does not exist");
  return nullptr;
}

void wait_for_room(Call& call, const StreamRef& stream, bool host_function) {
  wait_while(call, [] { return world().destroyers > 0; });
  const bool pair = host_function && stream->waited_last;
  const auto full = [&] { return pair ? stream->pairs >= room_pairs : !host_function && stream->room_taken >= room(); };
  if (!full()) return;
  World& all = world();
  ++all.room_waiters;
  wait_while(call, full);
  --all.room_waiters;
  if (all.waiters > 0) all.done.notify_all();
}

void wait_for_others_room(Call& call) {
  wait_while(call, [] { return world().room_waiters > 0; });
}

void enqueue(Call& call, const StreamRef& stream, const OpRef& op) {
  static_cast<void>(call);
  World& all = world();
  Device& device = *all.devices[static_cast<std::size_t>(stream->device)];
  device.started = true;
  op->stream = stream;
  op->device = stream->device;
  stream->room_taken += op->room;
  stream->waited_last = false;
  depend(op, stream->last);
  if (stream->legacy) {
    for (const auto& [handle, other] : all.streams) {
      if (other->blocking && other->device == stream->device && other->last) depend(op, other->last);
    }
    for (const StreamRef& other : all.ended) {
      if (other->blocking && other->device == stream->device && other->last) depend(op, other->last);
    }
  } else if (stream->blocking) {
    depend(op, device.legacy->last);
  }
  stream->last = op;
  submit(op);
}

cudaError_t synchronize_with(Call& call, const StreamRef& stream) {
  std::vector<OpRef> ops{stream->last};
  if (stream->legacy) {
    for (const auto& [handle, other] : world().streams) {
      if (other->blocking && other->device == stream->device) ops.push_back(other->last);
    }
  }
  for (const OpRef& op : ops) wait_for(call, op);
  return static_cast<cudaError_t>(world().failure);
}

cudaError_t stream_synchronize(Call& call, cudaStream_t handle) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t no = ask_stream(call, stream)) return no;
  const cudaError_t answer = synchronize_with(call, stream);
  release_unused(stream->device, *stream);
  return answer;
}

cudaError_t event_record(Call& call, cudaEvent_t event, cudaStream_t handle, unsigned flags) {
  if (!is_live(event)) return cudaErrorInvalidResourceHandle;
  check_thread(call, *event);
  if ((flags & ~cudaEventRecordExternal) != 0) return cudaErrorInvalidValue;
  const StreamRef stream = find(call, handle);
  if (!stream || stream->device != event->device) return cudaErrorInvalidResourceHandle;  // R187
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (flags == cudaEventRecordExternal) {
    if (!captured) return cudaErrorIllegalState;
    Work work;
    work.event = event;
    capture_node(*stream, cudaGraphNodeTypeEventRecord, std::move(work));
    return cudaSuccess;
  }
  if (captured) {
    event->capture = stream->capture;
    event->nodes = stream->tails;
    event->op = nullptr;
    return cudaSuccess;
  }
  wait_for_room(call, stream, false);
  const OpRef op = new_op(call, Op::Kind::marker, stream->device);
  op->room = 1;
  event->capture = nullptr;
  event->nodes.clear();
  event->op = op;
  enqueue(call, stream, op);
  return cudaSuccess;
}

cudaError_t event_wait(Call& call, cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  if (!is_live(event)) return cudaErrorInvalidResourceHandle;
  check_thread(call, *event);
  if ((flags & ~cudaEventWaitExternal) != 0) return cudaErrorInvalidValue;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (flags == cudaEventWaitExternal) {
    if (!captured) return cudaErrorIllegalState;
    if (event->capture) return cudaErrorInvalidValue;  // R119
    Work work;
    work.event = event;
    capture_node(*stream, cudaGraphNodeTypeWaitEvent, std::move(work));
    return cudaSuccess;
  }
  if (event->capture) {
    Capture& from = *event->capture;
    if (!from.open) return cudaErrorInvalidValue;
    if (from.invalid) return cudaErrorStreamCaptureInvalidated;
    if (from.owner != std::this_thread::get_id() && from.mode != cudaStreamCaptureModeRelaxed) {
      return invalidate(from, cudaErrorStreamCaptureUnsupported);
    }
    if (stream->legacy) return invalidate(from, cudaErrorStreamCaptureImplicit);
    if (!captured) {
      stream->capture = event->capture;
      stream->tails = event->nodes;
      from.streams.push_back(stream.get());
      return cudaSuccess;
    }
    if (stream->capture != event->capture) {
      static_cast<void>(invalidate(from, cudaErrorStreamCaptureMerge));
      return invalidate(*stream->capture, cudaErrorStreamCaptureMerge);
    }
    for (const cudaGraphNode_t node : event->nodes) {
      if (std::find(stream->tails.begin(), stream->tails.end(), node) == stream->tails.end()) {
        stream->tails.push_back(node);
      }
    }
    return cudaSuccess;
  }
  if (captured) {
    if (!event->op) return cudaSuccess;  // R131
    return invalidate(*stream->capture, cudaErrorStreamCaptureIsolation);
  }
  if (!event->op) return cudaSuccess;
  const OpRef op = new_op(call, Op::Kind::marker, stream->device);
  depend(op, event->op);
  enqueue(call, stream, op);
  stream->waited_last = true;
  return cudaSuccess;
}

cudaError_t host_function(Call& call, cudaStream_t handle, cudaHostFn_t function, void* data) {
  if (function == nullptr) return cudaErrorInvalidValue;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (captured) {
    Work work;
    work.function = function;
    work.data = data;
    capture_node(*stream, cudaGraphNodeTypeHost, std::move(work));
    return cudaSuccess;
  }
  wait_for_others_room(call);
  wait_for_room(call, stream, true);
  const OpRef op = new_op(call, Op::Kind::host, stream->device, [function, data] { function(data); });
  op->pair = stream->waited_last;
  if (op->pair) ++stream->pairs;
  enqueue(call, stream, op);
  return cudaSuccess;
}

namespace {
cudaError_t callback(Call& call, cudaStream_t handle, cudaStreamCallback_t function, void* data) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (captured) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
  wait_for_room(call, stream, true);
  const OpRef op = new_op(call, Op::Kind::callback, stream->device, [handle, function, data] {
    int failure;
    {
      const Hidden hidden;
      const std::lock_guard guard(world().mutex);
      failure = world().failure;
    }
    function(handle, static_cast<cudaError_t>(failure), data);
  });
  op->pair = stream->waited_last;
  if (op->pair) ++stream->pairs;
  enqueue(call, stream, op);
  return cudaSuccess;
}

cudaError_t wait_for_word(Call& call, cudaStream_t handle, CUdeviceptr address, std::uint32_t value, unsigned flags) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (flags != CU_STREAM_WAIT_VALUE_GEQ || !block_at(reinterpret_cast<void*>(address))) return cudaErrorInvalidValue;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (captured) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
  wait_for_room(call, stream, false);
  const OpRef op = new_op(call, Op::Kind::word, stream->device);
  op->room = 1;
  op->word = reinterpret_cast<const std::uint32_t*>(address);
  op->at_least = value;
  enqueue(call, stream, op);
  return cudaSuccess;
}

cudaError_t write_word(Call& call, cudaStream_t handle, CUdeviceptr address, std::uint32_t value, unsigned flags) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || !block_at(reinterpret_cast<void*>(address))) {
    return cudaErrorInvalidValue;
  }
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (captured) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
  wait_for_room(call, stream, false);
  const OpRef op = new_op(call, Op::Kind::work, stream->device, [address, value] {
    __atomic_store_n(reinterpret_cast<std::uint32_t*>(address), value, __ATOMIC_RELEASE);
  });
  op->room = 1;
  enqueue(call, stream, op);
  return cudaSuccess;
}
}  // namespace

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* made, unsigned flags) {
  FAKE_CALL(cudaStreamCreateWithFlags, plain, { return create(call, made, flags, 0); });
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* made, unsigned flags, int priority) {
  FAKE_CALL(cudaStreamCreateWithPriority, plain, { return create(call, made, flags, priority); });
}
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  FAKE_CALL(cudaStreamDestroy, plain, {
    const StreamRef stream = find(call, handle);
    if (!stream || stream->legacy) return cudaErrorInvalidResourceHandle;
    leave_capture(stream);
    stream->dead = true;
    if (stream->last && !stream->last->done) world().ended.push_back(stream);
    world().streams.erase(handle);
    return cudaSuccess;
  });
}
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  FAKE_CALL(cudaStreamQuery, plain, {
    const StreamRef stream = find(call, handle);
    if (!stream) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t no = ask_stream(call, stream)) return no;
    return is_idle(call, *stream) ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAKE_CALL(cudaStreamSynchronize, plain, { return stream_synchronize(call, stream); });
}
CUresult cuStreamSynchronize(CUstream stream) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuStreamSynchronize, of_driver, { return stream_synchronize(call, stream); });
  };
  return static_cast<CUresult>(run());
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  FAKE_CALL(cudaStreamWaitEvent, plain, { return event_wait(call, stream, event, flags); });
}
CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuStreamWaitEvent, of_driver, { return event_wait(call, stream, event, flags); });
  };
  return static_cast<CUresult>(run());
}
cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  FAKE_CALL(cudaLaunchHostFunc, plain, { return host_function(call, stream, function, data); });
}
CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function, void* data) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuLaunchHostFunc, of_driver, { return host_function(call, stream, function, data); });
  };
  return static_cast<CUresult>(run());
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function, void* data, unsigned flags) {
  FAKE_CALL(cudaStreamAddCallback, plain, {
    if (function == nullptr || flags != 0) return cudaErrorInvalidValue;
    return callback(call, stream, function, data);
  });
}
CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuStreamWriteValue32, of_driver, { return write_word(call, stream, address, value, flags); });
  };
  return static_cast<CUresult>(run());
}
CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuStreamWaitValue32, of_driver, { return wait_for_word(call, stream, address, value, flags); });
  };
  return static_cast<CUresult>(run());
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* made, unsigned flags) {
  FAKE_CALL(cudaEventCreateWithFlags, plain, {
    if (made == nullptr || (flags & ~(cudaEventDisableTiming | cudaEventBlockingSync)) != 0) {
      return cudaErrorInvalidValue;
    }
    wait_for_others_room(call);
    auto* event = new CUevent_st;
    event->device = current_device();
    event->timed = (flags & cudaEventDisableTiming) == 0;
    world().events.insert(event);
    *made = event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FAKE_CALL(cudaEventDestroy, plain, {
    if (!is_live(event)) return cudaErrorInvalidResourceHandle;
    check_thread(call, *event);
    wait_for_others_room(call);
    world().events.erase(event);
    delete event;
    return cudaSuccess;
  });
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  FAKE_CALL(cudaEventRecord, plain, { return event_record(call, event, stream, cudaEventRecordDefault); });
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  FAKE_CALL(cudaEventRecordWithFlags, plain, { return event_record(call, event, stream, flags); });
}
CUresult cuEventRecord(CUevent event, CUstream stream) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuEventRecord, of_driver, { return event_record(call, event, stream, cudaEventRecordDefault); });
  };
  return static_cast<CUresult>(run());
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  FAKE_CALL(cudaEventQuery, anywhere, {
    if (const cudaError_t no = ask_event(call, event)) return no;
    return is_done(call, event->op) ? cudaSuccess : cudaErrorNotReady;
  });
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKE_CALL(cudaEventSynchronize, plain, {
    if (const cudaError_t no = ask_event(call, event)) return no;
    const OpRef op = event->op;
    wait_for(call, op);
    return static_cast<cudaError_t>(world().failure);
  });
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  FAKE_CALL(cudaEventElapsedTime, plain, {
    if (!is_live(start) || !is_live(end) || !start->timed || !end->timed) return cudaErrorInvalidResourceHandle;
    check_thread(call, *start);
    check_thread(call, *end);
    if (start->capture || end->capture) return cudaErrorCapturedEvent;
    if (!start->op || !end->op || start->device != end->device) return cudaErrorInvalidResourceHandle;
    if (!is_done(call, start->op) || !is_done(call, end->op)) return cudaErrorNotReady;
    *milliseconds = std::chrono::duration<float, std::milli>(end->op->finished - start->op->finished).count();
    return cudaSuccess;
  });
}

}  // extern "C"
