// When they are destroyed.
#include "backends/cuda/graphs/dead_instances.hpp"

#include <deque>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

struct Waiting {
  static Waiting& instance() {
    static auto& all = *new Waiting;
    return all;
  }
  detail::Mutex mutex;
  std::deque<cudaGraphExec_t> instances WEIR_GUARDED_BY(mutex);
};

/// One thread at a time: others come back later.
std::atomic<bool> at_work{false};

bool all_idle() noexcept {
  for (int i = 0; i < driver().device_count; ++i) {
    if (!CudaDevice::at(i).is_idle()) return false;
  }
  return true;
}

}  // namespace

constinit std::atomic<std::size_t> DeadInstances::count{0};

void DeadInstances::add(cudaGraphExec_t instance) noexcept {
  try {
    Waiting& waiting = Waiting::instance();
    const detail::LockGuard guard(waiting.mutex);
    waiting.instances.push_back(instance);
    count.store(waiting.instances.size(), std::memory_order_relaxed);
  } catch (...) {
    // Without memory for the list it stays for ever.
  }
}

void DeadInstances::destroy_if_idle() noexcept {
  if (!may_call_driver() || is_exiting() || at_work.exchange(true, std::memory_order_acquire)) return;
  const auto destroy_oldest = [] {
    cudaGraphExec_t oldest = nullptr;
    std::size_t left = 0;
    {
      Waiting& waiting = Waiting::instance();
      const detail::LockGuard guard(waiting.mutex);
      if (waiting.instances.empty()) return false;
      oldest = waiting.instances.front();
      waiting.instances.pop_front();
      left = waiting.instances.size();
      count.store(left, std::memory_order_relaxed);
    }
    note(cudaGraphExecDestroy(oldest));
    return left > 0;
  };
  for (bool more = true; more;) {
    const RoomCalls before;
    if (before.any() || !all_idle()) break;
    const RoomPause pause(before);
    more = pause.holds() && destroy_oldest();
  }
  while (count.load(std::memory_order_relaxed) > most && destroy_oldest()) {
  }
  at_work.store(false, std::memory_order_release);
}

}  // namespace weir::cuda
