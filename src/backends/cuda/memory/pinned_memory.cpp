// Blocks of powers of two and what lies between, kept by size.
#include "backends/cuda/memory/pinned_memory.hpp"

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/stocks.hpp"
#include "backends/cuda/streams/threads.hpp"
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

void* PinnedMemory::take_free(std::size_t size) {
  const detail::LockGuard guard(free_mutex_);
  std::vector<void*>& free = free_[size];
  if (free.empty()) return nullptr;
  void* data = free.back();
  free.pop_back();
  return data;
}

void* PinnedMemory::make(std::size_t size, cudaError_t& answer) {
  void* data = nullptr;
  const DeviceScope scope(current_device());  // in a context of the user's it would end with that
  answer = cudaHostAlloc(&data, size, cudaHostAllocPortable);
  if (answer != cudaSuccess) return nullptr;
  const detail::LockGuard guard(ranges_mutex_);
  ranges_.emplace(reinterpret_cast<std::uintptr_t>(data), Range{size, false});
  return data;
}

/// Free blocks of all sizes go to the driver, which waits for the devices (R58): before it is said that there is no memory.
bool PinnedMemory::give_back_free() noexcept {
  bool any = false;
  for (;;) {
    void* data = nullptr;
    {
      const detail::LockGuard guard(free_mutex_);
      for (auto& [size, free] : free_) {
        if (free.empty()) continue;
        data = free.back();
        free.pop_back();
        break;
      }
    }
    if (data == nullptr) return any;
    {
      const detail::LockGuard guard(ranges_mutex_);
      ranges_.erase(reinterpret_cast<std::uintptr_t>(data));
    }
    const DeviceScope scope(current_device());
    const cudaError_t answer = [&] {
      const detail::LockGuard whole(group_launches());
      return cudaFreeHost(data);
    }();
    note(answer);
    any = any || answer == cudaSuccess;
  }
}

void* PinnedMemory::take(std::size_t bytes, const char* operation, SourceLocation where, WithoutMemory without) {
  if (bytes > ~std::size_t{0} / 2) refuse(cudaErrorMemoryAllocation, operation, "pinned host memory", where);
  const std::size_t size = class_of(bytes);
  if (void* data = take_free(size)) return data;
  cudaError_t answer = cudaSuccess;
  void* data = make(size, answer);
  if (answer == cudaErrorMemoryAllocation || answer == cudaErrorInvalidValue) {
    note(answer);
    if (without == WithoutMemory::give_back && give_back_free()) data = make(size, answer);
  }
  if (answer == cudaErrorMemoryAllocation || answer == cudaErrorInvalidValue) {
    note(answer);
    throw Error(Errc::out_of_memory, operation, "pinned host memory",
                std::string(cudaGetErrorName(answer)) + ": no memory for " + std::to_string(bytes) + " bytes", where);
  }
  check(answer, operation, "pinned host memory", where);
  return data;
}

void* PinnedMemory::take_for_staging(std::size_t bytes, const char* operation, SourceLocation where) {
  if (bytes > staging) return take(bytes, operation, where);
  const std::size_t size = class_of(bytes);
  if (void* data = take_free(size)) return data;
  // A larger one now, and the next time there is one of this size.
  void* data = take_free(staging);
  if (data == nullptr) return take(bytes, operation, where);
  if (!filling_.exchange(true)) {
    try {
      auto task = make_task([this, size] { refill(size); });
      TaskThread::housekeeper().post(task);
    } catch (...) {
      filling_.store(false);  // the next one who takes asks again
    }
  }
  return data;
}

void PinnedMemory::fill_soon() noexcept {
  if (filling_.exchange(true)) return;
  try {
    auto task = make_task([this] { refill(staging); });
    TaskThread::housekeeper().post(task);
  } catch (...) {
    filling_.store(false);
  }
}

/// A block of a size that was asked for, and what is missing in the stock.
void PinnedMemory::refill(std::size_t size) noexcept {
  filling_.store(false);
  const auto enough = [&](std::size_t of, std::size_t count) {
    const detail::LockGuard guard(free_mutex_);
    return free_[of].size() >= count;
  };
  try {
    cudaError_t answer = cudaSuccess;
    if (!enough(size, 1)) give(make(size, answer));
    while (answer == cudaSuccess && !enough(staging, staging_blocks)) give(make(staging, answer));
    note(answer);
  } catch (...) {
    // Without memory the stock stays low.
  }
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

namespace {
class GiveBack final : public Reached {
 public:
  GiveBack(void* data, EndMark end) : data_(data), end_(std::move(end)) {}
  /// After a failure of the device, too: then nothing runs any more. Of other errors nobody knows what runs, and the block stays
  /// unused: better than used too early.
  void reached(cudaError_t answer) noexcept override {
    if (answer == cudaSuccess || is_sticky(answer)) PinnedMemory::instance().give(data_);
  }

 private:
  void* const data_;
  const EndMark end_;
};
}  // namespace

void PinnedMemory::give_after(void* data, CudaQueue& queue) noexcept {
  try {
    EndMark end = queue.mark_end("weir::copy", {});
    if (!end) return give(data);
    const cudaEvent_t event = end.event();
    std::unique_ptr<Reached> give_back = std::make_unique<GiveBack>(data, std::move(end));
    Poller::instance().add(&queue, queue.device().index(), event, give_back, Poller::Hurry::no);
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
  if (offset >= next->second.bytes || next->second.with_driver) return std::nullopt;
  return PointerInfo{MemoryKind::pinned, -1, next->second.bytes - offset};
}

// The driver may wait for all kernels (R59), and for what only goes on when others find and give memory: so no lock is held
// while it pins and unpins.
void PinnedMemory::pin(const void* data, std::size_t bytes, SourceLocation where) {
  constexpr const char* operation = "weir::pin";
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  {
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
    ranges_.emplace(begin, Range{bytes, true, true});
  }
  const DeviceScope scope(current_device());
  const cudaError_t answer = cudaHostRegister(const_cast<void*>(data), bytes, cudaHostRegisterPortable);
  {
    const detail::LockGuard guard(ranges_mutex_);
    if (answer == cudaSuccess) {
      ranges_.at(begin).with_driver = false;
    } else {
      ranges_.erase(begin);
    }
  }
  check(answer, operation, "host memory", where);
}

void PinnedMemory::unpin(const void* data, SourceLocation where) {
  constexpr const char* operation = "weir::unpin";
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  bool found = false;
  {
    const detail::LockGuard guard(ranges_mutex_);
    const auto range = ranges_.find(begin);
    if (range != ranges_.end() && !range->second.pinned_in_place) {
      throw Error(Errc::invalid_value, operation, "host memory",
                  "this is memory that Weir allocated, not pinned in place", where);
    }
    found = range != ranges_.end() && !std::exchange(range->second.with_driver, true);
  }
  if (!found) {
    if (find(data)) {
      throw Error(Errc::invalid_value, operation, "host memory",
                  "the address is inside a pinned range, not its beginning", where);
    }
    throw Error(Errc::not_pinned, operation, "host memory", "no range that begins there was pinned", where);
  }
  const DeviceScope scope(current_device());
  const cudaError_t answer = cudaHostUnregister(const_cast<void*>(data));
  {
    const detail::LockGuard guard(ranges_mutex_);
    if (answer == cudaSuccess) {
      ranges_.erase(begin);
    } else {
      ranges_.at(begin).with_driver = false;
    }
  }
  check(answer, operation, "host memory", where);
}

}  // namespace weir::cuda
