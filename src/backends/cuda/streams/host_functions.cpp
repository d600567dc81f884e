// What a call of a host function is surrounded by.
#include "backends/cuda/streams/host_functions.hpp"

#include <atomic>
#include <cstdlib>
#include <utility>

#include "failure_reports.hpp"

namespace weir::cuda {

namespace {

constinit std::atomic<bool> exiting{false};

}  // namespace

void note_exit() {
  static const bool registered = std::atexit([] { exiting.store(true); }) == 0;
  static_cast<void>(registered);
}

bool is_exiting() noexcept { return exiting.load(std::memory_order_relaxed); }

RunningScope::RunningScope(const char* what, SourceLocation where)
    : state_(std::exchange(detail::thread_state, detail::ThreadState::running)),
      running_(std::exchange(detail::running_command, detail::RunningCommand{what, {}, where})) {}

RunningScope::~RunningScope() {
  detail::thread_state = state_;
  detail::running_command = running_;
}

std::shared_ptr<const Error> call_function(detail::HostFunction& function, const std::string& object,
                                           SourceLocation where) {
  const RunningScope scope("a host function", where);
  try {
    function.call(NativeStream{});
    return nullptr;
  } catch (...) {
    return detail::failure_of({Errc::host_function_failed, "weir::host_call", "host function", {}, object, where},
                              std::current_exception());
  }
}

}  // namespace weir::cuda
