// All gates, which close when the process's exit handlers run.
#include "exit_gate.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <utility>

namespace weir::detail {

namespace {

struct Gates {
  Mutex mutex;
  ExitGate* first WEIR_GUARDED_BY(mutex) = nullptr;
  bool closed WEIR_GUARDED_BY(mutex) = false;

  static Gates& get() {
    static auto& gates = *new Gates;
    return gates;
  }
};

constinit thread_local const ExitGate* entered = nullptr;

}  // namespace

void close_gates() noexcept {
  Gates& gates = Gates::get();
  ExitGate* gate = nullptr;
  {
    const LockGuard guard(gates.mutex);
    gates.closed = true;
    gate = gates.first;
  }
  for (; gate != nullptr; gate = gate->next_) gate->close();
}

void ExitGate::open() {
  static pid_t process;
  Gates& gates = Gates::get();
  const LockGuard guard(gates.mutex);
  if (std::exchange(opened_, true)) return;
  process = getpid();
  // For each one anew: a driver that has started since the first one comes down before the first one's handler is called.
  std::atexit([] {
    if (getpid() == process) close_gates();
  });
  next_ = std::exchange(gates.first, this);
  const LockGuard own(mutex_);
  closed_ = gates.closed;
}

bool ExitGate::enter() noexcept {
  const LockGuard guard(mutex_);
  if (closed_) return false;
  ++inside_;
  entered = this;
  return true;
}

void ExitGate::leave() noexcept {
  const LockGuard guard(mutex_);
  --inside_;
  entered = nullptr;
  if (closed_) left_.notify_all();
}

void ExitGate::close() noexcept {
  constexpr auto longest = std::chrono::milliseconds(200);
  const auto until = std::chrono::steady_clock::now() + longest;
  const LockGuard guard(mutex_);
  closed_ = true;
  // What a thread inside calls may have called exit().
  const unsigned own = entered == this ? 1 : 0;
  while (inside_ > own) {
    if (left_.wait_until(mutex_, until) == std::cv_status::timeout) return;
  }
}

void stay_until_the_end() noexcept {
  for (;;) pause();
}

}  // namespace weir::detail
