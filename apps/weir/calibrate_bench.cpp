// Taking times on a device, and lines through them.
#include <algorithm>

#include <weir/sim.hpp>

#include "calibrate.hpp"
#include "measure.hpp"

namespace tool {

Bench::Bench(weir::Device of)
    : device(of),
      simulated(of.backend() == "sim"),
      a(of, {.name = "a"}),
      b(of, {.name = "b"}),
      pinned_in(weir::zeros<Quad>(weir::pinned, host_bytes / sizeof(Quad))),
      pinned_out(weir::zeros<Quad>(weir::pinned, host_bytes / sizeof(Quad))),
      pageable(weir::zeros<Quad>(weir::host, host_bytes / sizeof(Quad))),
      from(weir::zeros<Quad>(a, device_bytes() / sizeof(Quad))),
      to(weir::zeros<Quad>(a, device_bytes() / sizeof(Quad))) {
  device.synchronize();
}

double Bench::us(const std::function<void()>& body) const {
  Times times;
  for (int i = 0; i < repeats_; ++i) {
    device.synchronize();
    const Stopwatch watch(device);
    body();
    times.add(watch.milliseconds());
  }
  return 1000 * times.median();
}

double Bench::us_to_end(const std::function<void()>& body) const {
  return us([&] {
    body();
    a.synchronize();
  });
}

double Bench::each(int count, const std::function<void()>& call) const {
  return us([&] {
           for (int i = 0; i < count; ++i) call();
         }) /
         count;
}

double Bench::slope(int few, int many, const std::function<void(int)>& body) const {
  const double short_us = us([&] { body(few); });
  return (us([&] { body(many); }) - short_us) / (many - few);
}

void Bench::spin(weir::StreamRef stream, double us, std::size_t blocks, std::uint32_t threads) const {
  // The clock of a simulated device knows no code: it is told what a block costs.
  if (simulated) weir::sim::set_cost(spin_kernel, {.block_ns = 1000 * us});
  tool::spin(stream, simulated ? 0 : static_cast<std::int64_t>(1000 * us), blocks, threads);
}

void Bench::move(weir::StreamRef stream, std::size_t bytes, std::size_t blocks, std::uint32_t threads) const {
  if (simulated) weir::sim::set_cost(move_kernel, {.bytes = bytes});
  tool::move(stream, from, to, simulated ? 0 : bytes / (2 * sizeof(Quad)), blocks, threads);
}

void Bench::copy_in(weir::StreamRef stream, std::size_t bytes) const {
  weir::copy(stream, part(to, bytes), part(pinned_in, bytes));
}
void Bench::copy_out(weir::StreamRef stream, std::size_t bytes) const {
  weir::copy(stream, part(pinned_out, bytes), part(from, bytes));
}
void Bench::copy_within(weir::StreamRef stream, std::size_t bytes) const {
  weir::copy(stream, part(to, bytes), part(from, bytes));
}
void Bench::fill(weir::StreamRef stream, std::size_t bytes) const { weir::fill(stream, part(to, bytes), Quad{}); }

Line line_through(const std::vector<std::pair<double, double>>& points) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  for (const auto& [x, y] : points) {
    const double weight = 1 / (y * y);
    w += weight;
    wx += weight * x;
    wy += weight * y;
    wxx += weight * x * x;
    wxy += weight * x * y;
  }
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return {(wy - slope * wx) / w, slope};
}

}  // namespace tool
