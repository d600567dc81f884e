// The host's half: chunks in order, each taken by one thread when its slot is free or filled.
#include "backends/cuda/memory/staged_copy.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "past_caches.hpp"

namespace weir::cuda {

namespace {

constexpr const char* copying = "weir::copy";
constexpr std::size_t least_for_whole_slots = std::size_t{8} << 20;

std::uint32_t load(std::uint32_t& word) { return std::atomic_ref(word).load(std::memory_order_acquire); }
void store(std::uint32_t& word, std::uint32_t value) { std::atomic_ref(word).store(value, std::memory_order_release); }

/// Of a large target little is left in the caches anyway.
void copy_streaming(char* to, const char* from, std::size_t bytes) {
  detail::copy_past_caches(reinterpret_cast<std::byte*>(to), reinterpret_cast<const std::byte*>(from), bytes);
}

}  // namespace

StagingLanes::Lane* StagingLanes::take(SourceLocation where) noexcept {
  try {
    return take_or_make(where);
  } catch (...) {
    return nullptr;
  }
}

StagingLanes::Lane* StagingLanes::take_or_make(SourceLocation where) {
  std::uint32_t number = 0;
  {
    const detail::LockGuard guard(mutex_);
    if (!free_.empty()) {
      Lane* const lane = free_.back();
      free_.pop_back();
      return lane;
    }
    if (made_ == StagedJob::most_lanes) return nullptr;
    free_.reserve(made_ + 1);  // give() needs no memory
    number = made_++;
  }
  PinnedMemory& pinned = PinnedMemory::instance();
  void* words = nullptr;
  try {
    auto lane = std::make_unique<Lane>();
    // Without it the driver copies: nothing needs to wait.
    constexpr auto without = PinnedMemory::WithoutMemory::say_so;
    words = pinned.take(sizeof(StagedWords), copying, where, without);
    char* const ring = static_cast<char*>(pinned.take(StagedJob::ring_bytes, copying, where, without));
    *lane = Lane{number, new (words) StagedWords{}, ring};
    return lane.release();
  } catch (...) {
    pinned.give(words);
    const detail::LockGuard guard(mutex_);
    if (number + 1 == made_) --made_;  // else the number is lost
    throw;
  }
}

void StagingLanes::fill_soon() noexcept {
  try {
    auto task = make_task([this] {
      if (Lane* const lane = take({})) give(*lane);
    });
    TaskThread::housekeeper().post(task);
  } catch (...) {
    // The first copy makes it.
  }
}

void StagingLanes::give(Lane& lane) noexcept {
  const detail::LockGuard guard(mutex_);
  free_.push_back(&lane);
}

StagedCopy::StagedCopy(StagingLanes::Lane& lane, void* device, void* pageable, std::size_t bytes, StagedWay way)
    : way_(way), pageable_(static_cast<char*>(pageable)) {
  const auto address = reinterpret_cast<std::uintptr_t>(device);
  const auto skew = static_cast<std::uint32_t>(address % 16);
  job_.device = static_cast<char*>(device) - skew;
  job_.ring = lane.ring;
  job_.words = new (lane.words) StagedWords{};
  job_.bytes = bytes + skew;
  job_.skew = skew;
  // Little chunks let a small copy begin sooner.
  const std::size_t chunk = bytes < least_for_whole_slots ? StagedJob::slot_bytes / 2 : StagedJob::slot_bytes;
  job_.chunk_bytes = static_cast<std::uint32_t>(chunk);
  job_.chunks = static_cast<std::uint32_t>((job_.bytes + chunk - 1) / chunk);
  job_.lane = lane.number;
}

bool StagedCopy::begun() const { return load(words().started) != 0; }

bool StagedCopy::move_one() noexcept {
  constexpr std::uint32_t slots = StagedWords::slots;
  std::uint32_t chunk = next_.load(std::memory_order_relaxed);
  if (chunk >= job_.chunks) return false;
  StagedSlot& slot = words().slot[chunk % slots];
  const bool can =
      way_ == StagedWay::in ? chunk < slots || load(slot.emptied) == chunk + 1 - slots : load(slot.filled) == chunk + 1;
  if (!can || !next_.compare_exchange_strong(chunk, chunk + 1)) return can;
  const std::size_t begin = std::size_t{chunk} * job_.chunk_bytes;
  const std::size_t head = chunk == 0 ? job_.skew : 0;
  const std::size_t size = std::min<std::size_t>(job_.chunk_bytes, job_.bytes - begin) - head;
  char* const staged = job_.ring + std::size_t{chunk % slots} * StagedJob::slot_bytes + head;
  char* const own = pageable_ + (begin + head - job_.skew);
  if (way_ == StagedWay::in) {
    std::memcpy(staged, own, size);  // the ring stays in the caches, where the device reads it
    store(slot.filled, chunk + 1);
  } else {
    copy_streaming(own, staged, size);
    store(slot.emptied, chunk + 1);
  }
  moved_.fetch_add(1, std::memory_order_release);
  return true;
}

bool StagedCopy::over() const {
  const std::uint32_t end = load(words().ended);
  return end == StagedWords::skipped ||
         (end == StagedWords::done && moved_.load(std::memory_order_acquire) == job_.chunks);
}

bool StagedCopy::skipped() const { return load(words().ended) == StagedWords::skipped; }

}  // namespace weir::cuda
