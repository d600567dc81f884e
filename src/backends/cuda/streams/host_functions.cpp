// What a call of a host function is surrounded by.
#include "backends/cuda/streams/host_functions.hpp"

#include <atomic>
#include <cstdlib>
#include <utility>

namespace weir::cuda {

namespace {

constinit std::atomic<bool> exiting{false};

std::string text_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& e) {
    return e.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

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
    const std::exception_ptr cause = std::current_exception();
    return std::make_shared<const Error>(Errc::host_function_failed, "weir::host_call", object,
                                         "host function threw: " + text_of(cause), where, cause);
  }
}

}  // namespace weir::cuda
