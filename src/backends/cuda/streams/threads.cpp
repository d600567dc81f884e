// Threads of the backend's own: how they start, and how they end with the process.
#include "backends/cuda/streams/threads.hpp"

#include <csignal>
#include <thread>
#include <utility>

#include "no_waits.hpp"

namespace weir::cuda {

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

bool may_call_driver() noexcept { return !detail::NoWaits::here(); }

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
    if (!gate_.enter()) detail::stay_until_the_end();  // with the task: what it would use may be gone
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
