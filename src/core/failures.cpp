// The errors of kernels and host functions that threw.
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "backend.hpp"

namespace weir::detail {

namespace {

using ErrorPointer = std::shared_ptr<const Error>;

std::string text_of(const std::exception_ptr& cause) {
  try {
    std::rethrow_exception(cause);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

ErrorPointer error_of(const FailedCommand& command, const std::string& text, const std::exception_ptr& cause) {
  std::string message = command.what;
  if (!command.name.empty()) message.append(" '").append(command.name).append("'");
  return std::make_shared<const Error>(command.code, command.operation, std::string(command.object),
                                       message + " threw: " + text, command.where, cause);
}

/// For each code one error that was made while there was memory.
struct Spare {
  ErrorPointer kernel = make(Errc::kernel_failed, "weir::launch", "a kernel");
  ErrorPointer host_function = make(Errc::host_function_failed, "weir::host_call", "a host function");

  static ErrorPointer make(Errc code, const char* operation, const char* object) {
    return std::make_shared<const Error>(
        code, operation, object, "it threw, and there was no memory left to say which one and what", SourceLocation{});
  }
};
const Spare& spare() {
  static const auto& errors = *new Spare;
  return errors;
}

}  // namespace

void prepare_failures() { spare(); }

ErrorPointer failure_of(const FailedCommand& command, std::exception_ptr cause) noexcept {
  try {
    return error_of(command, text_of(cause), cause);
  } catch (...) {
    // There is no memory, or what() threw.
  }
  try {
    return error_of(command, "an exception for whose text there is no memory", cause);
  } catch (...) {
    return command.code == Errc::kernel_failed ? spare().kernel : spare().host_function;
  }
}

}  // namespace weir::detail
