// Empty tasks through rings to one spinning worker: rate, round trip, fork and join.
#include "raw.hpp"
#include "ring.hpp"
#include "support/measure.hpp"
#include "support/proof.hpp"

namespace bench::raw {

namespace {
void nothing(void*) { tally(); }

template <bool whole>
double rate(std::size_t rings, std::size_t count) {
  SpinningWorker worker(rings);
  const double time = seconds([&] {
    std::size_t ring = 0;
    for (std::size_t i = 0; i < count; ++i) {
      if constexpr (whole) {
        worker[ring].push_whole(nothing, nullptr);
      } else {
        worker[ring].push(nothing, nullptr);
      }
      if (++ring == rings) ring = 0;
    }
    worker.wait();
  });
  return static_cast<double>(count) / time * 1e-6;
}

}  // namespace

double launch_rate(std::size_t rings, std::size_t count) { return rate<true>(rings, count); }
double lean_launch_rate(std::size_t rings, std::size_t count) { return rate<false>(rings, count); }

double round_trip(std::size_t count) {
  SpinningWorker worker(1);
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      worker[0].push(nothing, nullptr);
      worker[0].wait();
    }
  });
  return time / static_cast<double>(count) * 1e6;
}

double fork_join(std::size_t width, std::size_t count) {
  SpinningWorker worker(1);
  Ring& ring = worker[0];
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      ring.push(nothing, nullptr);
      ring.wait();
      for (std::size_t task = 0; task < width; ++task) ring.push(nothing, nullptr);
      ring.wait();
      ring.push(nothing, nullptr);
      ring.wait();
    }
  });
  return time / static_cast<double>(count) * 1e6;
}

}  // namespace bench::raw
