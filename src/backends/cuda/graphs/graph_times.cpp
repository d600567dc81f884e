// When the kernels of a replay run: while somebody watches, the instance's kernels note it (docs/observers.md).
#include <memory>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/graphs/kernel_nodes.hpp"

namespace weir::cuda {

/// What the instance's kernel heeds.
detail::DeviceGuard CudaGraph::guard_of(std::size_t index, const Launch& launch) const {
  const std::uint64_t place = graph_->nodes_of(index).place;
  detail::DeviceGuard guard =
      graph_->replays().guard_of(place, threads_of(launch), CudaDevice::at(applied_[index].device));
  guard.times = applied_[index].times;
  return guard;
}

/// The instance's kernel as it is, with where it notes its times.
bool CudaGraph::tell_driver(std::size_t index) {
  const Launch& launch = *launch_of(applied_[index].payload);
  const LoadedCode* loaded = device_.known(*code_of(*launch.kernel));
  if (loaded == nullptr) return false;
  PreparedLaunch prepared(*loaded, launch, guard_of(index, launch));
  const CUDA_KERNEL_NODE_PARAMS parameters = parameters_of(prepared);
  return driver().update_kernel_node(instance_.get(), graph_->nodes_of(index).nodes.front(), &parameters) ==
         CUDA_SUCCESS;
}

/// The graph's own kernels on its own device that are one node each, as many as there is memory for.
void CudaGraph::choose_timed() {
  auto nodes = std::make_shared<std::vector<std::uint32_t>>();
  std::size_t enabled = 0;
  for (std::size_t i = 0; i < applied_.size(); ++i) {
    const Launch* launch = launch_of(applied_[i].payload);
    const bool fits = is_updatable(launch) && applied_[i].enabled && !applied_[i].astray &&
                      applied_[i].device == device_.index() && graph_->nodes_of(i).nodes.size() == 1;
    if (fits) nodes->push_back(static_cast<std::uint32_t>(i));
    if (applied_[i].enabled) ++enabled;
  }
  const std::size_t blocks = (nodes->size() + TimesMemory::block_size - 1) / TimesMemory::block_size;
  if (times_.size() < blocks) {
    const std::vector<TimesMemory::Block> more = device_.times_memory().take_for_graph(blocks - times_.size());
    if (more.empty()) nodes->resize(times_.size() * TimesMemory::block_size);
    times_.insert(times_.end(), more.begin(), more.end());
  }
  all_noted_ = nodes->size() == enabled;
  timed_nodes_ = std::move(nodes);
}

/// From the next launch on.
void CudaGraph::note_times(bool on) {
  if (times_noted_ == on) return;
  const ContextScope scope(device_.index());
  if (on) {
    choose_timed();
    if (timed_nodes_->empty()) return;
    tracked_ = true;  // until its end it writes there
    for (std::size_t k = 0; k < timed_nodes_->size(); ++k) {
      const std::size_t index = (*timed_nodes_)[k];
      applied_[index].times = times_[k / TimesMemory::block_size].on_device + k % TimesMemory::block_size;
      if (tell_driver(index)) continue;
      applied_[index].times = nullptr;
      all_noted_ = false;
    }
  } else {
    for (const std::uint32_t index : *timed_nodes_) {
      if (std::exchange(applied_[index].times, nullptr) != nullptr) static_cast<void>(tell_driver(index));
    }
  }
  for (Applied& one : applied_) one.told.reset();
  times_noted_ = on;
}

}  // namespace weir::cuda
