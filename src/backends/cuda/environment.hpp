// What Weir asks of CUDA and NCCL by environment variables.
#pragma once

namespace weir::cuda {

/// Sets what the user has not set; later calls do nothing. The library calls it before main(): a variable that is set while
/// other threads read theirs may crash them, since they get no copy.
void set_environment();

}  // namespace weir::cuda
