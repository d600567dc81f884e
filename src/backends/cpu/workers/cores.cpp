// The system moves a thread that may not run where it is.
#include "backends/cpu/workers/cores.hpp"

namespace weir::cpu {

void move_off(const cpu_set_t& taken) noexcept {
  cpu_set_t all;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  cpu_set_t others;
  CPU_AND(&others, &all, &taken);
  CPU_XOR(&others, &others, &all);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof others, &others) != 0) return;
  sched_setaffinity(0, sizeof all, &all);
}

}  // namespace weir::cpu
