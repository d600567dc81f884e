// Ends: of replays, and of graphs, which wait for those.
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/graphs/guarded_graph.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

/// Graphs that the user has let go of while replays were pending.
struct Graveyard {
  detail::Mutex mutex;
  std::vector<CudaGraph*> graphs WEIR_GUARDED_BY(mutex);
};
Graveyard& graveyard() {
  static auto& instance = *new Graveyard;
  return instance;
}

}  // namespace

/// Before the lock is taken: where the stock has none left, making one may wait (R214).
void CudaGraph::make_end(int device, SourceLocation where) {
  {
    const detail::LockGuard lock(mutex_);
    if (done_[static_cast<std::size_t>(device)]) return;
  }
  StockEvent event(CudaDevice::at(device), false, where);
  const detail::LockGuard lock(mutex_);
  StockEvent& done = done_[static_cast<std::size_t>(device)];
  if (!done) done = std::move(event);
}

/// Replays follow each other, so that the last one's end is the end of all.
void CudaGraph::note_end(int device, cudaStream_t stream) noexcept {
  const cudaError_t answer = cudaEventRecord(done_[static_cast<std::size_t>(device)].get(), stream);
  note(answer);
  end_known_ = answer == cudaSuccess;
  last_device_ = device;
}

/// Whether nothing is pending that would be in the way of its end. Where the driver does not say so, it may be.
bool CudaGraph::is_over() noexcept {
  if (late_ != 0) return false;
  if (!launched_ || !tracked_) return true;
  if (!end_known_) return last_queue_.queue->is_over(last_queue_.owner);
  const DeviceScope scope(last_device_);
  return answer_of(cudaEventQuery(done_[static_cast<std::size_t>(last_device_)].get())) == Answer::done;
}

void CudaGraph::forget_earlier() noexcept {
  if (!is_over()) return;
  earlier_.clear();
  earlier_guarded_.clear();
  graph_->forget_replaced();
}

void CudaGraph::close() noexcept {
  bury(this);
  DeadInstances::collect();
}

/// Deletes it, and others that were closed before, as soon as nothing of them is pending.
void CudaGraph::bury(CudaGraph* graph) noexcept {
  std::vector<CudaGraph*> gone;
  try {
    const detail::LockGuard guard(graveyard().mutex);
    auto& graphs = graveyard().graphs;
    gone.reserve(graphs.size() + 1);
    if (graph != nullptr) graphs.push_back(graph);
    std::erase_if(graphs, [&](CudaGraph* one) {
      const detail::LockGuard lock(one->mutex_);
      if (!one->is_over()) return false;
      gone.push_back(one);
      return true;
    });
    buried.store(graphs.size(), std::memory_order_relaxed);
  } catch (...) {
    // Without memory for the list the graph stays.
  }
  for (CudaGraph* one : gone) delete one;
}

}  // namespace weir::cuda
