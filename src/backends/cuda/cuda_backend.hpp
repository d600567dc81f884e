// NVIDIA GPUs, by the CUDA runtime API.
#pragma once

namespace weir {
class Backend;
}

namespace weir::cuda {

/// The backend; made at the first call, which does not touch the driver. Never destroyed.
Backend& backend();

}  // namespace weir::cuda
