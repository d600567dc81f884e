// Empty tasks through rings to one spinning worker: rate, round trip, fork and join.
#include "raw.hpp"
#include "ring.hpp"
#include "support/measure.hpp"

namespace bench::raw {

namespace {
void nothing(const void*) {}
}  // namespace

double launch_rate(std::size_t rings, std::size_t count) {
  SpinningWorker worker(rings);
  const double time = seconds([&] {
    std::size_t ring = 0;
    for (std::size_t i = 0; i < count; ++i) {
      worker[ring].push(nothing);
      if (++ring == rings) ring = 0;
    }
    worker.wait();
  });
  return static_cast<double>(count) / time * 1e-6;
}

double round_trip(std::size_t count) {
  SpinningWorker worker(1);
  const double time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      worker[0].push(nothing);
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
      ring.push(nothing);
      ring.wait();
      for (std::size_t task = 0; task < width; ++task) ring.push(nothing);
      ring.wait();
      ring.push(nothing);
      ring.wait();
    }
  });
  return time / static_cast<double>(count) * 1e6;
}

}  // namespace bench::raw
