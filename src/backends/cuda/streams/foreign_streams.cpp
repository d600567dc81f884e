// Streams of others, wrapped: which queue gets one, and the failures that all wrappers of one stream share.
#include <algorithm>
#include <memory>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

bool CudaDevice::shares_failures(const CudaQueue& queue) const {
  return std::any_of(queues_.begin(), queues_.end(), [&](const CudaQueue* other) {
    return other != &queue && !other->ended() && &other->failures() == &queue.failures();
  });
}

/// What the wrapper of a stream gets: the stream's, where another queue stands for it, else one that nobody has. A wrapper that ended
/// says nothing: the driver may have given its stream's handle to another one. The lock is held.
FailureState& CudaDevice::failures_for(cudaStream_t stream, const CudaQueue& queue) {
  for (const CudaQueue* other : queues_) {
    if (other != &queue && other->stands_for(stream)) return other->failures();
  }
  const auto is_free = [&](const FailureState& state) WEIR_NEEDS(queues_mutex_) {
    return std::none_of(queues_.begin(), queues_.end(),
                        [&](const CudaQueue* other) { return other != &queue && &other->failures() == &state; });
  };
  if (is_free(queue.failures())) return queue.failures();
  for (const auto& state : more_failure_states_) {
    if (is_free(*state)) return *state;
  }
  return *more_failure_states_.emplace_back(std::make_unique<FailureState>());
}

CudaQueue& CudaDevice::wrap_queue(cudaStream_t stream, const QueueOptions& options) {
  start({});
  if (stream == nullptr) stream = cudaStreamLegacy;
  const detail::LockGuard guard(queues_mutex_);
  CudaQueue* queue = nullptr;
  const auto free = std::find_if(free_wrappers_.begin(), free_wrappers_.end(),
                                 [](CudaQueue* q) { return q->progress() == Answer::done; });
  if (free != free_wrappers_.end()) {
    queue = *free;
    if (!shares_failures(*queue)) keep_failure_of(*queue);
    free_wrappers_.erase(free);
  } else {
    queues_.reserve(queues_.size() + 1);
    queue = new CudaQueue(*this);
    queues_.push_back(queue);
  }
  FailureState& failures = failures_for(stream, *queue);
  queue->open(options);
  queue->wrap(stream, failures);
  return *queue;
}

}  // namespace weir::cuda
