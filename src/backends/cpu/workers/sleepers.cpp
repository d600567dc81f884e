// The list of sleeping workers, made of threads.
#include "backends/cpu/workers/sleepers.hpp"

namespace weir::cpu {

template class BasicSleepers<ThreadParts>;

}  // namespace weir::cpu
