// Reads /proc/stat: everything that was not idle, less this process and its children.
#include "disturbance.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>

#include <sys/resource.h>
#include <unistd.h>

namespace bench {

namespace {

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

double own_seconds() {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    total += seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  }
  return total;
}

double others_seconds() {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0;
  double nice = 0;
  double system = 0;
  double idle = 0;
  double waiting = 0;
  double interrupts = 0;
  double soft_interrupts = 0;
  double stolen = 0;
  file >> name >> user >> nice >> system >> idle >> waiting >> interrupts >> soft_interrupts >> stolen;
  const double ticks = user + nice + system + interrupts + soft_interrupts + stolen;
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK)) - own_seconds();
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Disturbance::Disturbance() : others_(others_seconds()), wall_(wall_seconds()) {}

double Disturbance::cores() const { return std::max(0.0, (others_seconds() - others_) / (wall_seconds() - wall_)); }

}  // namespace bench
