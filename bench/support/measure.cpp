// Medians, settling, and what the system says about this process.
#include "measure.hpp"

#include <algorithm>
#include <fstream>
#include <thread>

#include <time.h>
#include <unistd.h>

namespace bench {

Spread spread(std::vector<double> figures) {
  std::sort(figures.begin(), figures.end());
  const std::size_t middle = figures.size() / 2;
  const double median = figures.size() % 2 == 1 ? figures[middle] : (figures[middle - 1] + figures[middle]) / 2;
  return {median, figures.front(), figures.back()};
}

void settle(const Options& options) {
  if (options.pause.count() != 0) std::this_thread::sleep_for(options.pause);
}

double cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

double resident_mib() {
  std::size_t total = 0;
  std::size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

}  // namespace bench
