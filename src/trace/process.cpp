// What a timeline says of the process that it is of.
#include "trace/process.hpp"

#include <chrono>
#include <ctime>
#include <fstream>

namespace weir::trace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string line;
  for (char c = 0; file.get(c) && line.size() < 4096;) line += c == '\0' ? ' ' : c;
  if (!line.empty()) line.pop_back();
  return line;
}

void add_note(Timeline& timeline, std::string_view note) {
  if (!timeline.note.empty()) timeline.note += "; ";
  timeline.note += note;
}

std::string machine() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  file >> id;
  return id;
}

std::string date_now() {
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace weir::trace
