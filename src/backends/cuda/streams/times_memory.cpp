#include "backends/cuda/streams/times_memory.hpp"

#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/clock_kernel.hpp"

namespace weir::cuda {

void TimesMemory::fill(SourceLocation where) {
  constexpr std::size_t of_batches = batch_size * batch_count;
  constexpr std::size_t count = of_batches + block_size * block_count;
  constexpr std::size_t bytes = count * sizeof(detail::KernelTimes);
  constexpr const char* starting = "weir: starting a device";
  void* on_device = nullptr;
  void* on_host = nullptr;
  if (stream_ == nullptr) stream_ = device_.stocks().take_stream(false, 0, starting, device_.name(), where);
  cudaError_t answer = cudaMalloc(&on_device, bytes);
  if (answer == cudaSuccess) {
    answer = cudaHostAlloc(&on_host, bytes + sizeof(detail::KernelTimes), cudaHostAllocPortable);
  }
  if (answer == cudaSuccess) answer = cudaMemsetAsync(on_device, 0, bytes, stream_);
  if (answer == cudaSuccess) answer = cudaStreamSynchronize(stream_);
  if (answer != cudaSuccess) {  // the device may be asked to start again
    if (on_host != nullptr) note(cudaFreeHost(on_host));
    if (on_device != nullptr) note(cudaFree(on_device));
  }
  check(answer, starting, device_.name(), where);
  stamp_ = static_cast<detail::KernelTimes*>(on_host) + count;
  const detail::LockGuard guard(mutex_);
  for_batches_.reserve(batch_count);
  free_.reserve(block_count);
  of_graphs_.reserve(block_count);
  const auto block_at = [&](std::size_t first) -> Block {
    return {static_cast<detail::KernelTimes*>(on_device) + first, static_cast<detail::KernelTimes*>(on_host) + first};
  };
  for (std::size_t first = 0; first < of_batches; first += batch_size) for_batches_.push_back(block_at(first));
  for (std::size_t first = of_batches; first < count; first += block_size) free_.push_back(block_at(first));
}

TimesMemory::Block TimesMemory::take_for_batch() noexcept {
  const detail::LockGuard guard(mutex_);
  if (for_batches_.empty()) return {};
  const Block block = for_batches_.back();
  for_batches_.pop_back();
  return block;
}

void TimesMemory::give_by_batch(Block block) noexcept {
  if (block.on_device == nullptr) return;
  const detail::LockGuard guard(mutex_);
  for_batches_.push_back(block);
}

std::vector<TimesMemory::Block> TimesMemory::take(std::size_t count) {
  std::vector<Block> taken;
  taken.reserve(count);
  const detail::LockGuard guard(mutex_);
  if (free_.size() < count) return {};
  taken.assign(free_.end() - static_cast<std::ptrdiff_t>(count), free_.end());
  free_.resize(free_.size() - count);
  return taken;
}

cudaError_t TimesMemory::fetch(Block block, std::size_t count, cudaEvent_t fetched) noexcept {
  const std::size_t bytes = count * sizeof(detail::KernelTimes);
  cudaError_t answer = cudaMemcpyAsync(block.on_host, block.on_device, bytes, cudaMemcpyDeviceToHost, stream_);
  if (answer == cudaSuccess) answer = cudaMemsetAsync(block.on_device, 0, bytes, stream_);
  if (answer == cudaSuccess) answer = cudaEventRecord(fetched, stream_);
  return answer;
}

cudaError_t TimesMemory::stamp(cudaEvent_t behind) noexcept {
  const cudaError_t answer = launch_note_time(stamp_, stream_);
  return answer == cudaSuccess ? cudaEventRecord(behind, stream_) : answer;
}

std::vector<TimesMemory::Block> TimesMemory::take_for_graph(std::size_t count) {
  constexpr std::size_t left_to_replays = block_count / 4;
  std::vector<Block> taken;
  taken.reserve(count);
  const detail::LockGuard guard(mutex_);
  if (of_graphs_.size() + free_.size() < count + left_to_replays) return {};
  while (taken.size() < count) {
    std::vector<Block>& from = of_graphs_.empty() ? free_ : of_graphs_;
    taken.push_back(from.back());
    from.pop_back();
  }
  return taken;
}

void TimesMemory::give_by_graph(const std::vector<Block>& blocks) noexcept {
  const detail::LockGuard guard(mutex_);
  of_graphs_.insert(of_graphs_.end(), blocks.begin(), blocks.end());  // there is room
}

void TimesMemory::give(Block block) noexcept {
  if (block.on_device == nullptr) return;
  const detail::LockGuard guard(mutex_);
  free_.push_back(block);
}

}  // namespace weir::cuda
