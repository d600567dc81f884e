// Processes, as others of their machine see them.
#include <charconv>
#include <cstddef>
#include <fstream>
#include <string>

#include <sys/stat.h>
#include <unistd.h>

#include "hash.hpp"
#include "ranks/control.hpp"

namespace weir::detail {

/// Of the boot and the namespace in which processes have numbers.
RankProcess this_process() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat numbers {};
  if (boot.empty() || stat("/proc/self/ns/pid", &numbers) != 0) return {};
  Hash machine;
  machine.add(boot + std::to_string(numbers.st_ino));
  return {machine.value(), static_cast<std::uint64_t>(getpid())};
}

bool may_run(const RankProcess& process) {
  if (process.machine == 0 || process.machine != this_process().machine) return false;
  std::string line;
  std::getline(std::ifstream("/proc/" + std::to_string(process.number) + "/stat"), line);
  // "number (name) state ...", and names may have anything.
  const std::size_t name_end = line.rfind(") ");
  if (name_end == std::string::npos) return false;
  const char state = line[name_end + 2];
  return state == 'R' || state == 'S' || state == 'D';
}

}  // namespace weir::detail
