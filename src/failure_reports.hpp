// The part of the seam that is about failures: how the errors of failed commands are made, and which of them nobody has
// been told of.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <string_view>

#include <weir/error.hpp>

namespace weir::detail {

/// A kernel or host function that threw.
struct FailedCommand {
  Errc code;
  const char* operation;    ///< the call that enqueued it
  const char* what;         ///< "kernel"
  std::string_view name;    ///< the kernel's; may be empty
  std::string_view object;  ///< the stream
  SourceLocation where;
};
/// The error of a failed command: made here alone. Where there is no memory for all that it says, it says less; where there
/// is none at all, it is one that was made before.
std::shared_ptr<const Error> failure_of(const FailedCommand& command, std::exception_ptr cause) noexcept;

/// A stream failed, and nobody was told so far. What is still so at the end of the process is printed then.
void note_unseen(const std::shared_ptr<const Error>& failure) noexcept;
/// Prints what the program should know and did not ask for, unless the user wants no such lines.
void say_unasked(const std::string& text);
/// Throws a failure to the host, which has seen it now.
[[noreturn]] void throw_seen(const Error& failure);
/// Reads the environment, and makes what failures without memory need. Called once, before anything can fail; what is
/// registered for the end of the process later runs before failures are printed.
void prepare_failures();

}  // namespace weir::detail
