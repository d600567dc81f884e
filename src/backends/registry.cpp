// The only file that names the backends. A program may be linked with one of its own before the library's: without simulated
// devices (WEIR_WITHOUT_SIM), as the bench has.
#include "backend.hpp"
#include "backends/cpu/cpu_backend.hpp"
#include "backends/sim/sim_backend.hpp"
#if defined(WEIR_WITH_CUDA)
#include "backends/cuda/cuda_backend.hpp"
#endif

namespace weir {

const std::vector<Backend*>& backends() {
  static const auto& list = *new std::vector<Backend*> {
#if defined(WEIR_WITH_CUDA)
    &cuda::backend(),
#endif
        &cpu::backend(),
#if !defined(WEIR_WITHOUT_SIM)
        &sim::backend({&cpu::device_behind, &cpu::transport_behind}),
#endif
  };
  return list;
}

bool is_left_out(std::string_view name) {
#if defined(WEIR_WITH_CUDA)
  static_cast<void>(name);
  return false;
#else
  return name == "cuda";
#endif
}

}  // namespace weir
