// Draws the progress bar.
#include "progress.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

namespace tool {

Progress::Progress(std::string label, std::size_t steps)
    : label_(std::move(label)),
      steps_(std::max<std::size_t>(steps, 1)),
      terminal_(isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (!drawn_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
}

void Progress::step() {
  done_ = std::min(done_ + 1, steps_);
  if (terminal_ && std::chrono::steady_clock::now() - start_ >= std::chrono::seconds(1)) draw();
}

void Progress::draw() {
  constexpr std::size_t width = 32;
  const std::size_t filled = done_ * width / steps_;
  const auto passed = std::chrono::steady_clock::now() - start_;
  fmt::print(stderr, "\r{} [{}{}] {:3}%  {:.0f} s\033[K", label_, std::string(filled, '#'),
             std::string(width - filled, '.'), done_ * 100 / steps_, std::chrono::duration<double>(passed).count());
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace tool
