// What Weir asks of CUDA and NCCL by environment variables.
#include "backends/cuda/environment.hpp"

#include <cstdlib>

namespace weir::cuda {

void set_environment() {
  static const bool once = [] {
    // With the default, 8 of 40 busy streams run (R182).
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    // What NCCL would do at a first use, it does when a communicator is made (nccl_first_calls.hpp).
    setenv("NCCL_RUNTIME_CONNECT", "0", 0);
    setenv("NCCL_SET_STACK_SIZE", "1", 0);
    return true;
  }();
  static_cast<void>(once);
}

namespace {
[[maybe_unused]] const bool before_main = (set_environment(), true);
}  // namespace

}  // namespace weir::cuda
