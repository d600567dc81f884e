// The part of the seam that is about how long host functions last: clocks of devices are told by who runs them, and by their
// bodies.
#pragma once

#include <atomic>
#include <chrono>

#include <weir/op.hpp>

namespace weir::detail {

/// Thread rule: any thread, several at once.
class FunctionClock {
 public:
  /// The body, which is not over, says that it works for so long.
  virtual void function_worked(const HostFunction& function, std::chrono::nanoseconds time) = 0;
  /// The body is over, or will never be called; for real it lasted so long. Before anybody can see that the command is done.
  virtual void function_over(const HostFunction& function, std::chrono::nanoseconds time) = 0;

 protected:
  ~FunctionClock() = default;
};
/// Null while no device has a time of its own.
extern std::atomic<FunctionClock*> function_clock;

/// Around the call of a host function.
class FunctionBody {
 public:
  explicit FunctionBody(const HostFunction& function)
      : clock_(function_clock.load(std::memory_order_acquire)), function_(function) {
    if (clock_ != nullptr) begin_ = std::chrono::steady_clock::now();
  }
  ~FunctionBody() {
    if (clock_ != nullptr) clock_->function_over(function_, std::chrono::steady_clock::now() - begin_);
  }
  FunctionBody(const FunctionBody&) = delete;
  FunctionBody& operator=(const FunctionBody&) = delete;

 private:
  FunctionClock* clock_;
  const HostFunction& function_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace weir::detail
