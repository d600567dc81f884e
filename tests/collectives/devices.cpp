// Before the library looks: seven devices, whatever the machine.
#include <cstdlib>

namespace {
#ifdef WEIR_FAKE_NCCL
const bool asked = setenv("WEIR_FAKE_CUDA_DEVICES", "7", 1) == 0 && setenv("WEIR_TEST_BACKEND", "cuda", 1) == 0 &&
                   setenv("WEIR_NCCL", "", 1) == 0;  // the program itself
#endif
const bool cpu_asked = setenv("WEIR_CPU_DEVICES", "7", 1) == 0;
}  // namespace
