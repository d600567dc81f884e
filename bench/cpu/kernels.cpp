// B6 and B7: kernels as parallel loops, large and small, beside OpenMP's static loop over the same memory.
#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"

namespace bench {

namespace {

constexpr double factor = 3;

struct Triad {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> a, weir::View<const double> b,
                              weir::View<const double> c) const {
    a[i] = b[i] + factor * c[i];
  }
};

/// Three arrays and the two ways to run a triad over them.
struct Triads {
  Triads(weir::Device device, std::size_t count)
      : stream(device),
        n(count),
        a(weir::full(stream, n, 0.0)),
        b(weir::full(stream, n, 1.0)),
        c(weir::full(stream, n, 2.0)) {
    stream.synchronize();
  }
  void run_raw() { raw::triad(a.data(), b.data(), c.data(), factor, n); }
  void run_ours() {
    weir::launch(stream, n, Triad{}, weir::out(a), weir::in(b), weir::in(c));
    stream.synchronize();
  }

  weir::Stream stream;
  std::size_t n;
  weir::Array<double> a;
  weir::Array<double> b;
  weir::Array<double> c;
};

}  // namespace

void triad(Context& context) {
  Triads triads(context.device, 8 << 20);
  const double gigabytes = 3e-9 * sizeof(double) * static_cast<double>(triads.n);
  const Pair pair = by_turns(
      context.options, [&] { return gigabytes / seconds([&] { triads.run_raw(); }); },
      [&] { return gigabytes / seconds([&] { triads.run_ours(); }); });
  context.report.add({"B6", "triad, 3 x 64 MiB, one launch", "GB/s", pair.ours, pair.raw, {ratio_at_least(0.97)}});
}

void small_loop(Context& context) {
  Triads triads(context.device, 1000);
  const std::size_t count = context.options.cut(20'000);
  const auto microseconds = [&](auto&& run) {
    const double time = seconds([&] {
      for (std::size_t i = 0; i < count; ++i) run();
    });
    return time / static_cast<double>(count) * 1e6;
  };
  const Pair pair = by_turns(
      context.options, [&] { return microseconds([&] { triads.run_raw(); }); },
      [&] { return microseconds([&] { triads.run_ours(); }); });
  context.report.add({"B7", "launch over 1,000 elements, wait", "us", pair.ours, pair.raw, {ratio_at_most(1.0)}});
}

}  // namespace bench
