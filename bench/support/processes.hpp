// Programs that a benchmark starts.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace bench {

/// What a command of the shell writes. Throws where it cannot be started or fails.
std::string output_of(const std::string& command);

/// A new folder that goes away.
struct Folder {
  Folder();
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path path;
};

/// Instructions of `count` submissions, or waits, of cpu_probe, by callgrind, which counts inside its `what`_launches only. Throws where there
/// is nothing to count, or no valgrind.
double probed_instructions(const std::string& probe, const std::string& what, std::size_t count);

}  // namespace bench
