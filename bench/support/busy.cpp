// The calibration of the busy loop.
#include "busy.hpp"

#include <algorithm>

#include "measure.hpp"

namespace bench {

std::size_t busy_steps(double microseconds) {
  constexpr std::size_t steps = 100'000;
  double best = 1;
  for (int attempt = 0; attempt < 50; ++attempt) best = std::min(best, seconds([] { busy(steps); }));
  return static_cast<std::size_t>(microseconds * 1e-6 * static_cast<double>(steps) / best);
}

}  // namespace bench
