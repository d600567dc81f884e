// What the system says of a thread of this process.
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace weir_test {

/// As proc(5) has it: 'S' while it sleeps, 'R' while it runs or waits for a core; 0 when it has ended.
inline char state_of_thread(pid_t thread) {
  std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t name_ends = text.rfind(')');
  return name_ends != std::string::npos && text.size() > name_ends + 2 ? text[name_ends + 2] : '\0';
}

}  // namespace weir_test
