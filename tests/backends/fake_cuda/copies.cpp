// Copies and fills, and what pageable memory asks for (R36 to R42).
#include <cstring>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t most_snapshot = std::size_t{1} << 20;

/// Rows of bytes, in planes.
struct Box {
  char* to;
  const char* from;
  std::size_t run;
  std::size_t rows = 1;
  std::size_t planes = 1;
  std::size_t to_row = 0;
  std::size_t from_row = 0;
  std::size_t to_plane = 0;
  std::size_t from_plane = 0;

  void copy() const {
    for (std::size_t p = 0; p < planes; ++p) {
      for (std::size_t r = 0; r < rows; ++r) {
        std::memcpy(to + p * to_plane + r * to_row, from + p * from_plane + r * from_row, run);
      }
    }
  }
  std::size_t reach(std::size_t row, std::size_t plane) const { return (planes - 1) * plane + (rows - 1) * row + run; }
};

bool fits(const void* data, std::size_t bytes) {
  std::uintptr_t begin = 0;
  const Block* block = block_at(data, &begin);
  return block == nullptr || reinterpret_cast<std::uintptr_t>(data) - begin + bytes <= block->bytes;
}

cudaError_t copy(Call& call, Box box, cudaStream_t handle) {
  if (box.run == 0 || box.rows == 0 || box.planes == 0) return cudaSuccess;
  if (box.to == nullptr || box.from == nullptr) return cudaErrorInvalidValue;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (!fits(box.to, box.reach(box.to_row, box.to_plane)) || !fits(box.from, box.reach(box.from_row, box.from_plane))) {
    return cudaErrorInvalidValue;  // R48
  }
  const Block* to = block_at(box.to);
  const Block* from = block_at(box.from);
  const bool to_device = to != nullptr && to->type == cudaMemoryTypeDevice;
  const bool from_device = from != nullptr && from->type == cudaMemoryTypeDevice;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  Work work;
  if (captured) {
    work.action = [box] { box.copy(); };
    capture_node(*stream, cudaGraphNodeTypeMemcpy, std::move(work));
    return cudaSuccess;
  }
  const bool waits = to == nullptr || (!to_device && !from_device) ||
                     (from == nullptr && box.run * box.rows * box.planes > most_snapshot);
  if (from == nullptr && !waits) {
    auto taken = std::make_shared<std::vector<char>>(box.run * box.rows * box.planes);
    {
      const Shown shown;  // the caller's memory is read here
      Box snapshot = box;
      snapshot.to = taken->data();
      snapshot.to_row = box.run;
      snapshot.to_plane = box.run * box.rows;
      snapshot.copy();
      release(taken.get());
    }
    box.from = taken->data();
    box.from_row = box.run;
    box.from_plane = box.run * box.rows;
    work.action = [box, taken] {
      acquire(taken.get());
      box.copy();
    };
  } else {
    work.action = [box] { box.copy(); };
  }
  const cudaError_t answer = put_work(call, stream, cudaGraphNodeTypeMemcpy, std::move(work));
  if (answer == cudaSuccess && waits) {
    const OpRef op = stream->last;
    wait_for(call, op);
    return static_cast<cudaError_t>(world().failure);
  }
  return answer;
}

template <class Unit>
cudaError_t fill(Call& call, CUdeviceptr address, Unit value, std::size_t count, cudaStream_t handle) {
  if (count == 0) return cudaSuccess;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  auto* to = reinterpret_cast<Unit*>(address);
  const Block* block = block_at(to);
  if (block == nullptr || !fits(to, count * sizeof(Unit)) || address % sizeof(Unit) != 0) return cudaErrorInvalidValue;
  if (block->type == cudaMemoryTypeDevice && block->device != stream->device) return cudaErrorInvalidValue;  // R189
  Work work;
  work.action = [to, value, count] {
    for (std::size_t i = 0; i < count; ++i) to[i] = value;
  };
  return put_work(call, stream, cudaGraphNodeTypeMemset, std::move(work));
}

Box box_of(const cudaPitchedPtr& to, const cudaPitchedPtr& from, const cudaExtent& extent) {
  Box box{static_cast<char*>(to.ptr), static_cast<const char*>(from.ptr), extent.width};
  box.rows = extent.height;
  box.planes = extent.depth;
  box.to_row = to.pitch;
  box.from_row = from.pitch;
  box.to_plane = to.pitch * to.ysize;
  box.from_plane = from.pitch * from.ysize;
  return box;
}

}  // namespace

cudaError_t put_work(Call& call, const StreamRef& stream, cudaGraphNodeType type, Work work) {
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (captured) {
    capture_node(*stream, type, std::move(work));
    return cudaSuccess;
  }
  wait_for_room(call, stream, false);
  const OpRef op = new_op(call, Op::Kind::work, stream->device, std::move(work.action));
  op->room = 1;
  enqueue(call, stream, op);
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind, cudaStream_t stream) {
  FAKE_CALL(cudaMemcpyAsync, plain, {
    return copy(call, Box{static_cast<char*>(to), static_cast<const char*>(from), bytes}, stream);
  });
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind) {
  FAKE_CALL(cudaMemcpy, plain, {
    const cudaError_t answer =
        copy(call, Box{static_cast<char*>(to), static_cast<const char*>(from), bytes}, cudaStreamLegacy);
    return answer == cudaSuccess ? synchronize_with(call, find(call, cudaStreamLegacy)) : answer;
  });
}
cudaError_t cudaMemcpyPeerAsync(void* to, int, const void* from, int, size_t bytes, cudaStream_t stream) {
  FAKE_CALL(cudaMemcpyPeerAsync, plain, {
    const StreamRef into = find(call, stream);
    // The driver captures no peer copies.
    if (into && into->capture) return invalidate(*into->capture, cudaErrorStreamCaptureUnsupported);
    return copy(call, Box{static_cast<char*>(to), static_cast<const char*>(from), bytes}, stream);
  });
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind, cudaStream_t stream) {
  FAKE_CALL(cudaMemcpy2DAsync, plain, {
    Box box{static_cast<char*>(to), static_cast<const char*>(from), width};
    box.rows = height;
    box.to_row = to_pitch;
    box.from_row = from_pitch;
    return copy(call, box, stream);
  });
}
cudaError_t cudaMemcpy3DAsync(const cudaMemcpy3DParms* p, cudaStream_t stream) {
  FAKE_CALL(cudaMemcpy3DAsync, plain, { return copy(call, box_of(p->dstPtr, p->srcPtr, p->extent), stream); });
}
cudaError_t cudaMemcpy3DPeerAsync(const cudaMemcpy3DPeerParms* p, cudaStream_t stream) {
  FAKE_CALL(cudaMemcpy3DPeerAsync, plain, {
    const StreamRef into = find(call, stream);
    if (into && into->capture) return invalidate(*into->capture, cudaErrorStreamCaptureUnsupported);
    return copy(call, box_of(p->dstPtr, p->srcPtr, p->extent), stream);
  });
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  FAKE_CALL(cudaMemsetAsync, plain, {
    return fill(call, reinterpret_cast<CUdeviceptr>(to), static_cast<unsigned char>(value), bytes, stream);
  });
}
CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t count, CUstream stream) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuMemsetD8Async, of_driver, { return fill(call, to, value, count, stream); });
  };
  return static_cast<CUresult>(run());
}
CUresult cuMemsetD16Async(CUdeviceptr to, unsigned short value, size_t count, CUstream stream) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuMemsetD16Async, of_driver, { return fill(call, to, value, count, stream); });
  };
  return static_cast<CUresult>(run());
}
CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuMemsetD32Async, of_driver, { return fill(call, to, value, count, stream); });
  };
  return static_cast<CUresult>(run());
}

}  // extern "C"
