// A progress bar on a terminal, for runs that take longer than a second.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace tool {

/// Draws on stderr, only if that is a terminal and only once a second has passed; erases itself at the end.
class Progress {
 public:
  Progress(std::string label, std::size_t steps);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// One more step is done.
  void step();

 private:
  void draw();

  std::string label_;
  std::size_t steps_;
  std::size_t done_ = 0;
  bool terminal_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace tool
