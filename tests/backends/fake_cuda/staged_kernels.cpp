// In the place of staged_kernels.cu: one block that takes all chunks, in turn.
#include "backends/cuda/memory/staged_kernels.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "back_off.hpp"
#include "backends/fake_cuda/kernels.hpp"

namespace weir::cuda {

namespace {

std::uint32_t load(std::uint32_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }
void store(std::uint32_t& word, std::uint32_t value) { std::atomic_ref(word).store(value, std::memory_order_release); }
void wait_for(std::uint32_t& word, std::uint32_t value) {
  for (int looks = 0; load(word) != value; ++looks) detail::back_off(looks);
}

template <StagedWay way>
void move_staged(const fake_cuda::Dimensions&, void** arguments) {
  const StagedJob& job = *static_cast<const StagedJob*>(arguments[0]);
  StagedWords& words = *job.words;
  store(words.started, 1);
  if (fake_cuda::skipped(*static_cast<const detail::DeviceGuard*>(arguments[1]))) {
    store(words.ended, StagedWords::skipped);
    return;
  }
  for (std::uint32_t chunk = 0; chunk < job.chunks; ++chunk) {
    StagedSlot& slot = words.slot[chunk % StagedWords::slots];
    const std::uint64_t begin = std::uint64_t{chunk} * job.chunk_bytes;
    const std::size_t size = std::min<std::uint64_t>(job.bytes - begin, job.chunk_bytes);
    const std::size_t head = chunk == 0 ? job.skew : 0;
    char* const there = job.device + begin + head;
    char* const staged = job.ring + chunk % StagedWords::slots * StagedJob::slot_bytes + head;
    if (way == StagedWay::in) {
      wait_for(slot.filled, chunk + 1);
      std::memcpy(there, staged, size - head);
      store(slot.emptied, chunk + 1);
    } else {
      if (chunk >= StagedWords::slots) wait_for(slot.emptied, chunk + 1 - StagedWords::slots);
      std::memcpy(staged, there, size - head);
      store(slot.filled, chunk + 1);
    }
  }
  store(words.ended, StagedWords::done);
}

template <StagedWay way>
CUfunc_st kernel{"move_staged", 2, {sizeof(StagedJob), sizeof(detail::DeviceGuard), 0, 0}, &move_staged<way>};

}  // namespace

cudaError_t launch_staged_copy(const StagedJob& job, StagedWay way, const detail::DeviceGuard& guard,
                               cudaStream_t stream) {
  void* arguments[] = {const_cast<StagedJob*>(&job), const_cast<detail::DeviceGuard*>(&guard)};
  const void* const function = way == StagedWay::in ? &kernel<StagedWay::in> : &kernel<StagedWay::out>;
  return cudaLaunchKernel(function, dim3(1), dim3(512), arguments, 0, stream);
}

cudaError_t load_staged_kernels() { return cudaSuccess; }

}  // namespace weir::cuda
