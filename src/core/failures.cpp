// The errors of kernels and host functions that threw; those that nobody was told of are printed when the process ends.
#include "failure_reports.hpp"
#include "thread_safety.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

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

ErrorPointer spare_error(Errc code, const char* operation, const char* object) {
  return std::make_shared<const Error>(
      code, operation, object, "it threw, and there was no memory left to say which one and what", SourceLocation{});
}

/// What outlives main(): the failures that nobody has seen, and errors that were made while there was memory.
class Unseen {
 public:
  static Unseen& instance() {
    static auto& unseen = *new Unseen;
    return unseen;
  }

  const ErrorPointer spare_kernel = spare_error(Errc::kernel_failed, "weir::launch", "a kernel");
  const ErrorPointer spare_function = spare_error(Errc::host_function_failed, "weir::host_call", "a host function");

  void add(const ErrorPointer& failure) noexcept {
    const LockGuard guard(mutex_);
    if (std::find(kept_.begin(), kept_.begin() + count_, failure) != kept_.begin() + count_) return;
    if (count_ == kept_.size()) {
      ++dropped_;
    } else {
      kept_[count_++] = failure;
    }
  }
  void remove(const Error& failure) noexcept {
    ErrorPointer seen;  // goes behind the lock: it may hold an exception of the user's
    const LockGuard guard(mutex_);
    for (std::size_t i = 0; i < count_; ++i) {
      if (kept_[i].get() != &failure) continue;
      seen = std::move(kept_[i]);
      std::move(kept_.begin() + i + 1, kept_.begin() + count_, kept_.begin() + i);
      --count_;
      return;
    }
    if (dropped_ > 0) --dropped_;
  }
  void print() const {
    if (!wanted_ || getpid() != process_) return;  // a forked child has the parent's
    const LockGuard guard(mutex_);
    for (std::size_t i = 0; i < std::min(count_, most_printed); ++i) {
      std::fprintf(stderr, "weir: a failure that nobody asked about: %s\n", kept_[i]->what());
    }
    const std::size_t more = count_ - std::min(count_, most_printed) + dropped_;
    if (more > 0) std::fprintf(stderr, "weir: %zu more failures that nobody asked about\n", more);
  }

  bool wanted() const { return wanted_; }

 private:
  Unseen() {
    const char* value = std::getenv("WEIR_REPORT_UNSEEN");
    const std::string_view text = value != nullptr ? value : "";
    wanted_ = text != "0";
    if (!text.empty() && text != "0" && text != "1") {
      std::fprintf(stderr, "weir: WEIR_REPORT_UNSEEN is '%s': it may be 0 or 1, and 1 is taken\n", value);
    }
  }

  static constexpr std::size_t most_printed = 10;
  bool wanted_ = true;
  const pid_t process_ = getpid();
  mutable Mutex mutex_;
  std::array<ErrorPointer, 64> kept_ WEIR_GUARDED_BY(mutex_);
  std::size_t count_ WEIR_GUARDED_BY(mutex_) = 0;
  std::size_t dropped_ WEIR_GUARDED_BY(mutex_) = 0;  ///< how many more there were than fit
};

}  // namespace

void prepare_failures() {
  Unseen::instance();
  static const bool registered = std::atexit([] { Unseen::instance().print(); }) == 0;
  static_cast<void>(registered);
}

ErrorPointer failure_of(const FailedCommand& command, std::exception_ptr cause) noexcept {
  try {
    return error_of(command, text_of(cause), cause);
  } catch (...) {
    // There is no memory, or what() threw.
  }
  try {
    return error_of(command, "an exception for whose text there is no memory", cause);
  } catch (...) {
    const Unseen& all = Unseen::instance();
    return command.code == Errc::kernel_failed ? all.spare_kernel : all.spare_function;
  }
}

void say_unasked(const std::string& text) {
  if (Unseen::instance().wanted()) std::fprintf(stderr, "weir: %s\n", text.c_str());
}

void note_unseen(const ErrorPointer& failure) noexcept { Unseen::instance().add(failure); }

void throw_seen(const Error& failure) {
  Unseen::instance().remove(failure);
  throw Error(failure);
}

}  // namespace weir::detail
