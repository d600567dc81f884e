// Where threads run.
#pragma once

#include <sched.h>
#include <sys/types.h>

namespace weir::cpu {

/// The calling thread goes on at another core than these; from there it may go wherever it might before. Where it may run on no other
/// one, nothing changes, and the answer is no.
bool move_off(const cpu_set_t& taken) noexcept;

/// Of a thread that sleeps: on which cores it is not to wake.
class KeptOff {
 public:
  /// By who is about to wake it. Where it may run on no other cores, nothing changes, and the answer is no.
  bool begin(pid_t thread, const cpu_set_t& taken) noexcept;
  /// By the thread itself, awake: it may go wherever it might before.
  void end() noexcept;

 private:
  cpu_set_t before_{};
  bool kept_ = false;
};

}  // namespace weir::cpu
