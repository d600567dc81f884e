// Large copies of pageable memory: a kernel in the stream, and host threads beside it (R37, R38).
#include <cstdlib>
#include <exception>
#include <string>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/memory/copy_threads.hpp"
#include "backends/cuda/memory/staged_copy.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

constexpr const char* copying = "weir::copy";

std::size_t bytes_of(const Layout& layout) { return layout.shape.count() * layout.element_bytes; }

/// CUDA_LAUNCH_BLOCKING=1: a kernel that waits for the host would never end (R184).
bool launches_block() {
  static const bool block = [] {
    const char* const said = std::getenv("CUDA_LAUNCH_BLOCKING");
    return said != nullptr && *said != '\0' && *said != '0';
  }();
  return block;
}

/// The kernel would be captured, and whoever waits for it would wait for ever.
void refuse_captured(cudaStream_t stream, const std::string& label, SourceLocation where) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &status), copying, label, where);
  if (status != cudaStreamCaptureStatusNone) refuse(cudaErrorStreamCaptureUnsupported, copying, label, where);
}

}  // namespace

/// A kernel of this queue's, or of the only device that reaches the memory, between the stream and the ring of host threads.
/// It is submitted whole before anything is moved: what others submit meanwhile stands behind it.
void CudaQueue::copy_staged(const Command& command, const Copy& copy, StagedWay way) {
  const bool in = way == StagedWay::in;
  const int memory_device = in ? copy.to_device : copy.from_device;
  const bool elsewhere = !reaches(MemoryKind::device, memory_device);
  CudaDevice& device = elsewhere ? CudaDevice::at(memory_device) : device_;
  // All that is made is made before, for nothing can be while a thread waits for room in a stream that this one holds (R214).
  const cudaStream_t queue = stream(command.where);
  const cudaStream_t idle = device.side_stream(command.where);
  StagingLanes::Lane* const lane = launches_block() ? nullptr : device.staging().take(command.where);
  if (lane == nullptr) return copy_when_idle(command, copy, memory_device);
  StagedCopy staged(*lane, in ? copy.to : const_cast<void*>(copy.from), in ? const_cast<void*>(copy.from) : copy.to,
                    bytes_of(copy.to_layout), way);
  std::exception_ptr refused;
  try {
    if (wrapped_) refuse_captured(queue, label_, command.where);
    if (elsewhere) {
      submit_elsewhere(device, [&](CudaQueue& helper) { helper.launch_staged(command, staged, *this); });
    } else {
      launch_staged(command, staged, *this);
    }
  } catch (...) {
    refused = std::current_exception();
  }
  if (staged.submitted() && !CopyThreads::instance().drive(staged, device.index(), idle)) {
    refuse(sticky_failure(), copying, label_, command.where);  // the lane is the kernel's for ever
  }
  if (refused) {
    device.staging().give(*lane);
    std::rethrow_exception(refused);
  }
  const bool skipped = staged.skipped();
  device.staging().give(*lane);
  if (!skipped) return;
  if (!in) throw_skipped(copying, command.where);
  synchronize(copying, command.where);
}

void CudaQueue::launch_staged(const Command& command, StagedCopy& staged, const CudaQueue& owner) {
  const cudaStream_t queue = stream(command.where);
  const DeviceScope scope(device_.index());
  check(launch_staged_copy(staged.job(), staged.way(), owner.guard(), queue), copying, owner.label_, command.where);
  staged.note_submitted();
}

/// A copy that the driver stages itself, where launches wait for their kernels, and where too many copies are on their way.
/// It would wait for the stream inside that call, and hold up every other thread's calls meanwhile (R207); so this waits
/// first, and copies where nothing is pending.
void CudaQueue::copy_when_idle(const Command& command, const Copy& copy, int device) {
  synchronize(copying, command.where);
  const cudaStream_t side = CudaDevice::at(device).side_stream(command.where);
  const DeviceScope scope(device);
  check(cudaMemcpyAsync(copy.to, copy.from, bytes_of(copy.to_layout), cudaMemcpyDefault, side), copying, label_,
        command.where);
  check(cudaStreamSynchronize(side), copying, label_, command.where);
}

}  // namespace weir::cuda
