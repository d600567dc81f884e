// Threads of the backend's own: how they start, and how they end with the process.
#include "backends/cuda/streams/threads.hpp"

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

namespace weir::cuda {

namespace {

constinit thread_local bool calls_forbidden = false;

detail::Mutex& gates_mutex() {
  static auto& mutex = *new detail::Mutex;
  return mutex;
}
constinit ExitGate* first_gate = nullptr;

}  // namespace

void start_thread(void (*run)(void* argument), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  try {
    std::thread(run, argument).detach();
  } catch (...) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool may_call_driver() noexcept { return !calls_forbidden; }
NoCallsScope::NoCallsScope() noexcept : before_(std::exchange(calls_forbidden, true)) {}
NoCallsScope::~NoCallsScope() { calls_forbidden = before_; }

/// All gates, at the end of the process.
void close_gates() noexcept {
  ExitGate* gate = nullptr;
  {
    const detail::LockGuard guard(gates_mutex());
    gate = first_gate;
  }
  for (; gate != nullptr; gate = gate->next_) gate->close();
}

void ExitGate::open() {
  static pid_t process;
  const detail::LockGuard guard(gates_mutex());
  if (first_gate == nullptr) {
    process = getpid();
    // The driver has started, so that this is called before it comes down.
    std::atexit([] {
      if (getpid() == process) close_gates();
    });
  }
  next_ = std::exchange(first_gate, this);
}

bool ExitGate::enter() noexcept {
  const detail::LockGuard guard(mutex_);
  if (closed_) return false;
  inside_ = true;
  thread_ = std::this_thread::get_id();
  return true;
}

void ExitGate::leave() noexcept {
  const detail::LockGuard guard(mutex_);
  inside_ = false;
  if (closed_) left_.notify_all();
}

void ExitGate::close() noexcept {
  constexpr auto longest = std::chrono::milliseconds(200);
  const auto until = std::chrono::steady_clock::now() + longest;
  const detail::LockGuard guard(mutex_);
  closed_ = true;
  // What it calls may have called exit().
  while (inside_ && thread_ != std::this_thread::get_id()) {
    if (left_.wait_until(mutex_, until) == std::cv_status::timeout) return;
  }
}

TaskThread& TaskThread::housekeeper() {
  static auto& thread = *new TaskThread;
  return thread;
}

TaskThread& TaskThread::caller() {
  static auto& thread = *new TaskThread;
  return thread;
}

TaskThread& TaskThread::reporter() {
  static auto& thread = *new TaskThread;
  return thread;
}

void TaskThread::post(std::unique_ptr<Task>& task) {
  const detail::LockGuard guard(mutex_);
  if (!started_) {
    gate_.open();
    start_thread([](void* self) { static_cast<TaskThread*>(self)->serve(); }, this);
    started_ = true;
  }
  Task* const last = std::exchange(last_, task.release());
  (last != nullptr ? last->next_ : first_) = last_;
  posted_.notify_one();
}

Task* TaskThread::take() noexcept {
  Task* const task = first_;
  if (task == nullptr) return nullptr;
  first_ = task->next_;
  if (first_ == nullptr) last_ = nullptr;
  return task;
}

void TaskThread::serve() noexcept {
  for (;;) {
    std::unique_ptr<Task> task;
    {
      const detail::LockGuard guard(mutex_);
      while (first_ == nullptr) posted_.wait(mutex_);
      task.reset(take());
    }
    if (!gate_.enter()) {
      static_cast<void>(task.release());  // what it would use may be gone
      return;
    }
    task->run();
    task.reset();
    gate_.leave();
  }
}

void TaskThread::catch_up() noexcept {
  for (;;) {
    std::unique_ptr<Task> task;
    {
      const detail::LockGuard guard(mutex_);
      task.reset(take());
    }
    if (task == nullptr) return;
    task->run();
  }
}

}  // namespace weir::cuda
