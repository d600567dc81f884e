// A device's side of collectives: what its streams have deferred, and who may reach its memory.
#include <vector>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

void CudaDevice::hold_all_deferred() noexcept {
  if (!any_deferred_.load(std::memory_order_acquire) || !any_deferred_.exchange(false)) return;
  std::vector<CudaQueue*> queues;
  {
    const detail::LockGuard guard(queues_mutex_);
    queues = queues_;
  }
  for (CudaQueue* queue : queues) {
    try {
      if (queue->blocking()) queue->hold_deferred({});
    } catch (const Error&) {
      note_deferred();  // the next command tries again
    }
  }
}

void CudaDevice::open_pools_to(const CudaDevice& peer) {
  if (!peer.can_access(index_) || open_to_[static_cast<std::size_t>(peer.index())].exchange(true)) return;
  const DeviceScope scope(index_);
  for_each_pool([&](CudaPool& pool) { pool.update_access(peer.index()); });
}

}  // namespace weir::cuda
