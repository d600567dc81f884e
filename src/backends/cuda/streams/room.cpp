// The threads that make calls, and what the others see of them.
#include "backends/cuda/streams/room.hpp"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <new>

namespace weir::cuda {

constinit thread_local RoomCall::Calls* RoomCall::calls = nullptr;
constinit RoomCall::Paused RoomCall::paused{};

namespace {

using Calls = std::atomic<std::uint64_t>;

/// Of a thread that has made a call; another thread's when that one has ended. Never deleted: others may be reading.
struct Slot {
  Calls calls{0};
  std::atomic<bool> taken{true};
  Slot* next = nullptr;
};
constinit std::atomic<Slot*> slots{nullptr};
/// Of threads for whose slot there was no memory: they are not seen.
constinit Calls unseen{0};

Slot* take_slot() noexcept {
  for (Slot* slot = slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    bool taken = false;
    if (slot->taken.compare_exchange_strong(taken, true)) return slot;
  }
  Slot* slot = new (std::nothrow) Slot;
  if (slot == nullptr) return nullptr;
  slot->next = slots.load(std::memory_order_relaxed);
  while (!slots.compare_exchange_weak(slot->next, slot)) {
  }
  return slot;
}

struct SlotOfThread {
  Slot* slot = take_slot();
  ~SlotOfThread() {
    if (slot != nullptr) slot->taken.store(false);
  }
};

}  // namespace

RoomCall::Calls& RoomCall::calls_of_thread() noexcept {
  static thread_local SlotOfThread mine;
  calls = mine.slot != nullptr ? &mine.slot->calls : &unseen;
  return *calls;
}

bool RoomCall::others_wait() noexcept {
  constexpr std::chrono::microseconds longest{10};
  struct Seen {
    const Calls* calls;
    std::uint64_t number;
  };
  std::array<Seen, 64> inside;  // of more threads than that the others are left out
  std::size_t left = 0;
  for (Slot* slot = slots.load(std::memory_order_acquire); slot != nullptr && left < inside.size(); slot = slot->next) {
    const std::uint64_t number = slot->calls.load(std::memory_order_relaxed);
    if ((number & 1) != 0 && &slot->calls != calls) inside[left++] = {&slot->calls, number};
  }
  if (left == 0) return false;
  const auto until = std::chrono::steady_clock::now() + longest;
  while (left > 0 && std::chrono::steady_clock::now() < until) {
    while (left > 0 && inside[left - 1].calls->load(std::memory_order_relaxed) != inside[left - 1].number) --left;
  }
  for (std::size_t i = 0; i < left; ++i) {
    if (inside[i].calls->load(std::memory_order_relaxed) == inside[i].number) return true;
  }
  return false;
}

/// The outermost call leaves again: until then it has submitted nothing. Who is in one already was seen there, so the pause does not hold.
void RoomCall::wait_for_pause() noexcept {
  if ((number_ & 1) != 0) return;
  while (paused.load(std::memory_order_acquire)) {
    calls_.store(number_, std::memory_order_relaxed);
    paused.wait(true, std::memory_order_acquire);
    calls_.store(number_ | 1, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
}

RoomCalls::RoomCalls() noexcept {
  const auto add = [&](std::uint64_t number) {
    number_ += number;
    any_ = any_ || (number & 1) != 0;
  };
  const std::atomic<std::uint64_t>* const own = RoomCall::calls;
  for (Slot* slot = slots.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
    if (&slot->calls != own) add(slot->calls.load(std::memory_order_acquire));
  }
  if (&unseen != own) add(unseen.load(std::memory_order_acquire));
}

bool RoomPause::is_exact() noexcept {
  static const bool registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
  return registered;
}

RoomPause::RoomPause(const RoomCalls& before) noexcept {
  RoomCall::paused.store(true, std::memory_order_seq_cst);
  if (is_exact()) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
  holds_ = !before.any() && RoomCalls() == before;
}

RoomPause::~RoomPause() {
  RoomCall::paused.store(false, std::memory_order_release);
  RoomCall::paused.notify_all();
}

}  // namespace weir::cuda
