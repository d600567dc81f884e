// Threads without signals: those are for the program's own ones.
#include "backends/cpu/workers/thread_start.hpp"

#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <system_error>
#include <thread>

namespace weir::cpu {

namespace {
std::atomic<bool> missing{false};
std::atomic<bool> said{false};
std::atomic<bool> refused_for_tests{false};

void say(const char* reason) {
  if (said.exchange(true)) return;
  std::fprintf(
      stderr, "weir: no thread can be started for the CPU's streams (%s): their work runs where threads wait or poll\n",
      reason);
}
}  // namespace

bool start_thread(void (*run)(void* argument), void* argument) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  bool started = false;
  try {
    if (refused_for_tests.load()) throw std::system_error(EAGAIN, std::generic_category());
    std::thread(run, argument).detach();
    started = true;
  } catch (const std::exception& error) {  // no thread, or no memory for one: what is listed stays listed
    say(error.what());
  }
  missing.store(!started);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

bool threads_are_missing() { return missing.load(std::memory_order_relaxed); }
void refuse_threads(bool refused) { refused_for_tests.store(refused); }

}  // namespace weir::cpu
