// B6, B7 and blocks: kernels as parallel loops, large, small and cooperative, beside OpenMP's static loop over the same memory.
#include <algorithm>
#include <cstdint>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"

namespace bench {

namespace {

struct Triad {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> a, weir::View<const double> b,
                              weir::View<const double> c, double factor) const {
    if constexpr (!sabotaged) a[i] = b[i] + factor * c[i];
  }
};

constexpr std::size_t block_elements = 4096;

/// Sums of 4,096 elements each, then a tree in shared memory. Each step of the sums is a phase, so that a core reads the
/// elements in their order.
struct BlockSums {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const double> x, weir::View<double> sums) const {
    if constexpr (sabotaged) return;
    const std::size_t threads = block.threads();
    const std::size_t begin = block.index() * block_elements;
    const weir::View<double> partial = block.shared<double>(threads);
    block.each([&](std::size_t thread) { partial[thread] = x[begin + thread]; });
    for (std::size_t step = 1; step < block_elements / threads; ++step) {
      block.each([&](std::size_t thread) { partial[thread] += x[begin + step * threads + thread]; });
    }
    for (std::size_t half = threads / 2; half > 0; half /= 2) {
      block.each([&](std::size_t thread) {
        if (thread < half) partial[thread] += partial[thread + half];
      });
    }
    block.each([&](std::size_t thread) {
      if (thread == 0) sums[block.index()] = partial[0];
    });
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
  void run_alone() { raw::triad_alone(a.data(), b.data(), c.data(), factor, n); }
  void run_ours() {
    weir::launch(stream, n, Triad{}, weir::out(a), weir::in(b), weir::in(c), factor);
    stream.synchronize();
  }
  /// The figure of work with a factor of its own, whose result is verified.
  template <class Work>
  double verified(Work&& work) {
    factor += 1;
    const double figure = work();
    const double expected = 1 + factor * 2;
    expect(std::all_of(a.data(), a.data() + n, [=](double x) { return x == expected; }), "a wrong triad");
    return figure;
  }

  weir::Stream stream;
  std::size_t n;
  weir::Array<double> a;
  weir::Array<double> b;
  weir::Array<double> c;
  double factor = 2;
};

}  // namespace

void triad(Context& context) {
  Triads triads(context.device, 8 << 20);
  const double gigabytes = 3e-9 * sizeof(double) * static_cast<double>(triads.n);
  const Pair pair = by_turns(
      context.options, [&] { return triads.verified([&] { return gigabytes / seconds([&] { triads.run_raw(); }); }); },
      [&] { return triads.verified([&] { return gigabytes / seconds([&] { triads.run_ours(); }); }); });
  context.report.add({"B6", "triad, 3 x 64 MiB, one launch", "GB/s", pair.ours, pair.raw, {ratio_at_least(0.97)}});
}

void small_loop(Context& context) {
  Triads triads(context.device, 1000);
  const std::size_t count = context.options.cut(20'000);
  const auto microseconds = [&](auto&& run) {
    return triads.verified([&] {
      const double time = seconds([&] {
        for (std::size_t i = 0; i < count; ++i) run();
      });
      return time / static_cast<double>(count) * 1e6;
    });
  };
  const Pair pair = by_turns(
      context.options, [&] { return microseconds([&] { triads.run_raw(); }); },
      [&] { return microseconds([&] { triads.run_ours(); }); });
  context.report.add({"B7", "launch over 1,000 elements, wait", "us", pair.ours, pair.raw, {ratio_at_most(1.0)}});
  const Pair own = by_turns(
      context.options, [&] { return microseconds([&] { triads.run_alone(); }); },
      [&] { return microseconds([&] { triads.run_ours(); }); });
  context.report.add(
      {"B7.own", "the same, beside a loop of the caller's", "us", own.ours, own.raw, {ratio_at_most(2)}});
}

void block_sums(Context& context) {
  constexpr std::uint32_t threads = 256;
  constexpr std::size_t blocks = 512;
  constexpr std::size_t n = blocks * block_elements;
  const std::size_t count = context.options.cut(100);
  weir::Stream stream(context.device);
  auto x = weir::full(stream, n, 1.0);
  auto sums = weir::zeros<double>(stream, blocks);
  stream.synchronize();
  const auto microseconds = [&](auto&& run) {
    const double time = seconds([&] {
      for (std::size_t i = 0; i < count; ++i) run();
    });
    return time / static_cast<double>(count) * 1e6;
  };
  const Pair pair = by_turns(
      context.options,
      [&] {
        double total = 0;
        const double time = microseconds([&] { total = raw::sum(x.data(), n); });
        expect(total == static_cast<double>(n), "a wrong sum");
        return time;
      },
      [&] {
        weir::fill(stream, sums, 0.0);
        stream.synchronize();
        const double time = microseconds([&] {
          weir::launch_blocks(stream, {.blocks = blocks, .threads = threads, .shared_bytes = threads * sizeof(double)},
                              BlockSums{}, weir::in(x), weir::out(sums));
          stream.synchronize();
        });
        double total = 0;
        for (const double sum : sums.to_host()) total += sum;
        expect(total == static_cast<double>(n), "a wrong sum of blocks");
        return time;
      });
  context.report.add({"blocks",
                      "sums of 4,096 elements by blocks of 256 threads, 16 MiB, wait",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.3)}});
}

}  // namespace bench
