// Where threads run.
#pragma once

#include <sched.h>

namespace weir::cpu {

/// The calling thread goes on at another core than these; from there it may go wherever it might before. Where it may run on no other
/// one, nothing changes.
void move_off(const cpu_set_t& taken) noexcept;

}  // namespace weir::cpu
