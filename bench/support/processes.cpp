#include "support/processes.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>

namespace bench {

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string text;
  for (char piece[256]; std::fgets(piece, sizeof piece, pipe) != nullptr;) text += piece;
  if (const int status = pclose(pipe); status != 0) {
    throw std::runtime_error("'" + command + "' ended with status " + std::to_string(status));
  }
  return text;
}

Folder::Folder() {
  std::string name = std::filesystem::temp_directory_path() / "weir-bench-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
  path = name;
}

namespace {

/// The instructions that callgrind counted in all threads' files of one run.
double counted_instructions(const std::filesystem::path& folder) {
  double total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("totals: ")) total += std::stod(line.substr(8));
    }
  }
  return total;
}

}  // namespace

double probed_instructions(const std::string& probe, const std::string& what, std::size_t count) {
  const Folder scratch;
  const std::filesystem::path& folder = scratch.path;
  output_of(
      "valgrind -q --tool=callgrind --separate-threads=yes --fair-sched=yes --collect-atstart=no"
      " --toggle-collect=" +
      what + "_launches --callgrind-out-file='" + (folder / "out").string() + "' '" + probe + "' " + what + " " +
      std::to_string(count));
  const double total = counted_instructions(folder);
  if (total == 0) throw std::runtime_error("callgrind counted nothing");
  return total;
}

}  // namespace bench
