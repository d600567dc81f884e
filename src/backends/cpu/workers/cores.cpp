// The system moves a thread that may not run where it is.
#include "backends/cpu/workers/cores.hpp"

namespace weir::cpu {

bool move_off(const cpu_set_t& taken) noexcept {
  KeptOff kept;
  const bool moves = kept.begin(0, taken);
  kept.end();
  return moves;
}

bool KeptOff::begin(pid_t thread, const cpu_set_t& taken) noexcept {
  if (sched_getaffinity(thread, sizeof before_, &before_) != 0) return false;
  cpu_set_t others;
  CPU_AND(&others, &before_, &taken);
  CPU_XOR(&others, &others, &before_);
  kept_ = CPU_COUNT(&others) != 0 && sched_setaffinity(thread, sizeof others, &others) == 0;
  return kept_;
}

void KeptOff::end() noexcept {
  if (kept_) sched_setaffinity(0, sizeof before_, &before_);
  kept_ = false;
}

}  // namespace weir::cpu
