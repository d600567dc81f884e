// The busy process: stopped and continued by signals.
#include "neighbour.hpp"

#include <cerrno>
#include <csignal>
#include <system_error>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace bench {

namespace {

[[noreturn]] void spin_on_last_core() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<std::size_t>(sysconf(_SC_NPROCESSORS_ONLN) - 1), &cores);
  sched_setaffinity(0, sizeof cores, &cores);
  raise(SIGSTOP);
  for (volatile unsigned turns = 0;;) turns = turns + 1;
}

}  // namespace

Neighbour::Neighbour() : child_(fork()) {
  if (child_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
  if (child_ == 0) spin_on_last_core();
  int status = 0;
  waitpid(child_, &status, WUNTRACED);
}

Neighbour::~Neighbour() {
  kill(child_, SIGKILL);
  waitpid(child_, nullptr, 0);
}

void Neighbour::resume() const { kill(child_, SIGCONT); }

void Neighbour::pause() const {
  kill(child_, SIGSTOP);
  int status = 0;
  waitpid(child_, &status, WUNTRACED);
}

}  // namespace bench
