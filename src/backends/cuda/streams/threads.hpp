// The backend's own threads but the poller: for what may wait, and for the user's code.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>

#include "exit_gate.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

/// Starts a detached thread that takes no signals: those are for the program's own ones. Throws std::system_error.
void start_thread(void (*run)(void* argument), void* argument);

/// Whether this thread may make any call of the driver's. One of the driver's own may not (R88), and others must not wait
/// (detail::NoWaits): what has to be done is put off there.
bool may_call_driver() noexcept;

/// Something for another thread to do.
class Task {
 public:
  virtual ~Task() = default;
  virtual void run() noexcept = 0;

 private:
  friend class TaskThread;
  Task* next_ = nullptr;
};

/// Runs tasks one after the other, in the order in which they came. Started by the first; lives as long as the process.
/// Thread rule: any thread.
class TaskThread {
 public:
  /// For what may wait in the driver: frees that were put off, and stocks that run low.
  static TaskThread& housekeeper();
  /// For host functions that the driver cannot be given.
  static TaskThread& caller();
  /// For what observers are told, which is the user's code, too.
  static TaskThread& reporter();

  /// No call of the driver's. Takes the task unless it throws, for want of a thread.
  void post(std::unique_ptr<Task>& task);
  /// Runs what is posted and not begun, on this thread: for who needs what the tasks give back.
  void catch_up() noexcept;

 private:
  void serve() noexcept;
  Task* take() noexcept WEIR_NEEDS(mutex_);

  detail::Mutex mutex_;
  std::condition_variable_any posted_;
  Task* first_ WEIR_GUARDED_BY(mutex_) = nullptr;
  Task* last_ WEIR_GUARDED_BY(mutex_) = nullptr;
  bool started_ WEIR_GUARDED_BY(mutex_) = false;
  detail::ExitGate gate_;
};

/// A function as a task.
template <class F>
std::unique_ptr<Task> make_task(F&& function) {
  class FunctionTask final : public Task {
   public:
    explicit FunctionTask(F&& f) : function_(std::forward<F>(f)) {}
    void run() noexcept override { function_(); }

   private:
    std::decay_t<F> function_;
  };
  return std::make_unique<FunctionTask>(std::forward<F>(function));
}

}  // namespace weir::cuda
