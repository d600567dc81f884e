// Blocks of powers of two and what lies between, kept by size.
#include "backends/cuda/memory/pinned_memory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
constexpr std::size_t smallest = 4096;
}

PinnedMemory& PinnedMemory::instance() {
  static auto& memory = *new PinnedMemory;
  return memory;
}

/// Four sizes for each power of two: little is wasted, and blocks fit again.
std::size_t PinnedMemory::class_of(std::size_t bytes) {
  bytes = std::max(bytes, smallest);
  const std::size_t step = std::max(smallest, std::bit_floor(bytes) / 4);
  return (bytes + step - 1) / step * step;
}

/// Looks at some of them, in turn: what a held stream uses stands before nothing else.
void PinnedMemory::collect_pending() {
  constexpr std::size_t most_asked = 8;
  for (std::size_t left = std::min(pending_.size(), most_asked); left > 0; --left) {
    const Pending oldest = pending_.front();
    const cudaError_t answer = cudaEventQuery(oldest.event);
    if (answer == cudaErrorNotReady) {
      pending_.push_back(oldest);
      pending_.pop_front();
      continue;
    }
    note(answer);
    {
      const detail::SharedGuard guard(ranges_mutex_);
      const auto range = ranges_.find(reinterpret_cast<std::uintptr_t>(oldest.data));
      if (range != ranges_.end()) free_[range->second.bytes].push_back(oldest.data);
    }
    free_events_[oldest.device].push_back(oldest.event);
    pending_.pop_front();
  }
}

void* PinnedMemory::take(std::size_t bytes, const char* operation, SourceLocation where) {
  if (bytes > ~std::size_t{0} / 2) refuse(cudaErrorMemoryAllocation, operation, "pinned host memory", where);
  const std::size_t size = class_of(bytes);
  {
    const detail::LockGuard guard(free_mutex_);
    collect_pending();
    std::vector<void*>& free = free_[size];
    if (!free.empty()) {
      void* data = free.back();
      free.pop_back();
      return data;
    }
  }
  void* data = nullptr;
  const cudaError_t answer = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  if (answer == cudaErrorMemoryAllocation || answer == cudaErrorInvalidValue) {
    note(answer);
    throw Error(Errc::out_of_memory, operation, "pinned host memory",
                std::string(cudaGetErrorName(answer)) + ": no memory for " + std::to_string(bytes) + " bytes", where);
  }
  check(answer, operation, "pinned host memory", where);
  const detail::LockGuard guard(ranges_mutex_);
  ranges_.emplace(reinterpret_cast<std::uintptr_t>(data), Range{size, false});
  return data;
}

void PinnedMemory::give(void* data) noexcept {
  if (data == nullptr) return;
  try {
    std::size_t size = 0;
    {
      const detail::SharedGuard guard(ranges_mutex_);
      size = ranges_.at(reinterpret_cast<std::uintptr_t>(data)).bytes;
    }
    const detail::LockGuard guard(free_mutex_);
    free_[size].push_back(data);
  } catch (...) {
    // Without memory for the list the block stays unused.
  }
}

void PinnedMemory::give_after(void* data, CudaQueue& queue) noexcept {
  const int device = queue.device().index();
  try {
    const cudaStream_t stream = queue.stream({});
    const DeviceScope scope(device);
    const detail::LockGuard guard(free_mutex_);
    std::vector<cudaEvent_t>& events = free_events_[device];
    if (events.empty()) {
      cudaEvent_t made = nullptr;
      check(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "weir::copy", queue.label(), {});
      events.push_back(made);
    }
    check(cudaEventRecord(events.back(), stream), "weir::copy", queue.label(), {});
    pending_.push_back({events.back(), device, data});
    events.pop_back();
  } catch (...) {
    // The block stays unused: better than used too early.
  }
}

std::optional<PointerInfo> PinnedMemory::find(const void* data) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const detail::SharedGuard guard(ranges_mutex_);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return std::nullopt;
  --next;
  const std::size_t offset = address - next->first;
  if (offset >= next->second.bytes) return std::nullopt;
  return PointerInfo{MemoryKind::pinned, -1, next->second.bytes - offset};
}

void PinnedMemory::pin(const void* data, std::size_t bytes, SourceLocation where) {
  constexpr const char* operation = "weir::pin";
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const detail::LockGuard guard(ranges_mutex_);
  auto next = ranges_.lower_bound(begin + bytes);
  if (next != ranges_.begin()) {
    --next;
    if (next->first + next->second.bytes > begin) {
      if (!next->second.pinned_in_place) {
        throw Error(Errc::invalid_value, operation, "host memory", "the range is memory that Weir allocated", where);
      }
      throw Error(Errc::already_pinned, operation, "host memory", "the range overlaps one that is pinned already",
                  where);
    }
  }
  check(cudaHostRegister(const_cast<void*>(data), bytes, cudaHostRegisterPortable), operation, "host memory", where);
  ranges_.emplace(begin, Range{bytes, true});
}

void PinnedMemory::unpin(const void* data, SourceLocation where) {
  constexpr const char* operation = "weir::unpin";
  {
    const detail::LockGuard guard(ranges_mutex_);
    const auto found = ranges_.find(reinterpret_cast<std::uintptr_t>(data));
    if (found != ranges_.end() && !found->second.pinned_in_place) {
      throw Error(Errc::invalid_value, operation, "host memory",
                  "this is memory that Weir allocated, not pinned in place", where);
    }
    if (found != ranges_.end()) {
      check(cudaHostUnregister(const_cast<void*>(data)), operation, "host memory", where);
      ranges_.erase(found);
      return;
    }
  }
  if (find(data)) {
    throw Error(Errc::invalid_value, operation, "host memory",
                "the address is inside a pinned range, not its beginning", where);
  }
  throw Error(Errc::not_pinned, operation, "host memory", "no range that begins there was pinned", where);
}

}  // namespace weir::cuda
