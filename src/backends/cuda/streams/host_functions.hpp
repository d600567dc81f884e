// Calling host functions on threads of the driver's.
#pragma once

#include <memory>
#include <string>

#include <weir/error.hpp>
#include <weir/host_call.hpp>

#include "backend.hpp"

namespace weir::cuda {

/// Makes every Weir call on this thread an error that names what is running.
class RunningScope {
 public:
  RunningScope(const char* what, SourceLocation where);
  ~RunningScope();
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  detail::ThreadState state_;
  detail::RunningCommand running_;
};

/// Calls it; what it throws is returned as an error about `object`, null if nothing.
std::shared_ptr<const Error> call_function(detail::HostFunction& function, const std::string& object,
                                           SourceLocation where);

/// The driver may still call when the process is ending, but what functions use may be gone.
void note_exit();
bool is_exiting() noexcept;

}  // namespace weir::cuda
