// Before the library looks: seven CPU devices, whatever the machine.
#include <cstdlib>

namespace {
const bool asked = setenv("WEIR_CPU_DEVICES", "7", 1) == 0;
}  // namespace
