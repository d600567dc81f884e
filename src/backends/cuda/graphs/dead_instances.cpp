// When they are destroyed.
#include "backends/cuda/graphs/dead_instances.hpp"

#include <algorithm>
#include <deque>
#include <optional>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/streams/host_functions.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

/// The oldest first.
struct Waiting {
  struct One {
    cudaGraphExec_t instance;
    int device;
    int device_of_all;
  };
  static Waiting& instance() {
    static auto& all = *new Waiting;
    return all;
  }
  detail::Mutex mutex;
  std::deque<One> all WEIR_GUARDED_BY(mutex);
};

/// One thread at a time: others come back later.
std::atomic<bool> at_work{false};

bool any_of(int device) noexcept {
  Waiting& waiting = Waiting::instance();
  const detail::LockGuard guard(waiting.mutex);
  return std::any_of(waiting.all.begin(), waiting.all.end(),
                     [&](const Waiting::One& one) { return one.device_of_all == device; });
}

bool is_idle(int device) noexcept {
  if (device != DeadInstances::several) return CudaDevice::at(device).is_idle();
  for (int i = 0; i < driver().device_count; ++i) {
    if (!CudaDevice::at(i).is_idle()) return false;
  }
  return true;
}

}  // namespace

constinit std::atomic<std::size_t> DeadInstances::count{0};

void DeadInstances::add(cudaGraphExec_t instance, int device, int device_of_all) noexcept {
  try {
    Waiting& waiting = Waiting::instance();
    const detail::LockGuard guard(waiting.mutex);
    waiting.all.push_back({instance, device, device_of_all});
    count.store(waiting.all.size(), std::memory_order_relaxed);
  } catch (...) {
    // Without memory for the list it stays for ever.
  }
}

void DeadInstances::destroy_if_idle() noexcept {
  if (!may_call_driver() || is_exiting() || at_work.exchange(true, std::memory_order_acquire)) return;
  // The oldest of that device, or of any.
  const auto destroy_one = [](std::optional<int> device) {
    Waiting::One one{};
    {
      Waiting& waiting = Waiting::instance();
      const detail::LockGuard guard(waiting.mutex);
      const auto found = std::find_if(waiting.all.begin(), waiting.all.end(), [&](const Waiting::One& each) {
        return !device || each.device_of_all == *device;
      });
      if (found == waiting.all.end()) return false;
      one = *found;
      waiting.all.erase(found);
      count.store(waiting.all.size(), std::memory_order_relaxed);
    }
    const DeviceScope scope(one.device);
    note(cudaGraphExecDestroy(one.instance));
    return true;
  };
  for (int device = several; device < driver().device_count; ++device) {
    for (bool more = any_of(device); more;) {
      const RoomCalls before;
      if (before.any() || !is_idle(device)) break;
      const RoomPause pause(before);
      more = pause.holds() && destroy_one(device);
    }
  }
  while (count.load(std::memory_order_relaxed) > most && destroy_one(std::nullopt)) {
  }
  at_work.store(false, std::memory_order_release);
}

}  // namespace weir::cuda
