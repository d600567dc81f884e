// Instances with conditional nodes that nobody launches any more.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>

namespace weir::cuda {

/// The driver's destruction of such an instance waits for all that is in its device's streams, whatever they have to do with it, and holds
/// up other threads' calls meanwhile (R215). What is in the streams may wait for one of those calls. So an instance stays until nothing is
/// pending in any stream of the device that Weir knows.
/// Thread rule: any thread, whatever locks it holds in add().
class DeadInstances {
 public:
  static constexpr int several = -1;
  /// Takes an instance of that device: it is not launched again. `device_of_all`: of all its nodes, or several.
  static void add(cudaGraphExec_t instance, int device, int device_of_all) noexcept;
  /// Destroys what can be destroyed without a wait; where more than `most` are left, others of them with one. One load if there are
  /// none. Not under a lock.
  static void collect() noexcept {
    if (count.load(std::memory_order_relaxed) != 0) destroy_if_idle();
  }
  static constexpr std::size_t most = 256;  ///< of 231 KiB each, on an H200

 private:
  static void destroy_if_idle() noexcept;

  static std::atomic<std::size_t> count;
};

}  // namespace weir::cuda
