// M1: z = x + y over 20,000,000 doubles, pinned host memory to pinned host memory, by k streams and chunks.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw.hpp"

namespace bench {

namespace {

constexpr std::size_t n = 20'000'000;

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> x, weir::View<const double> y,
                              weir::View<double> z) const {
    z[i] = x[i] + y[i];
  }
};

__global__ void add(const double* x, const double* y, double* z, std::size_t count) {
  const std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count) z[i] = x[i] + y[i];
}

/// `chunks` equal parts, the last of them halved `halvings` times over: what is left when the last bytes arrive is short.
struct Cut {
  std::size_t streams;
  std::size_t chunks;
  std::size_t halvings;

  std::vector<std::size_t> ends() const {
    std::vector<std::size_t> ends;
    for (std::size_t c = 1; c < chunks; ++c) ends.push_back(n * c / chunks);
    for (std::size_t h = 1; h <= halvings; ++h) ends.push_back(n - (n / chunks >> h));
    ends.push_back(n);
    return ends;
  }
  std::string text() const {
    return std::to_string(streams) + " streams, " + std::to_string(chunks) + " chunks" +
           (halvings == 0 ? "" : ", the last halved " + std::to_string(halvings) + " times");
  }
};

struct Vectors {
  explicit Vectors(weir::Device device)
      : home(device, {.blocking = false}),
        x(weir::empty<double>(weir::pinned, n)),
        y(weir::empty<double>(weir::pinned, n)),
        z(weir::full(weir::pinned, n, 0.0)),
        xd(weir::empty<double>(home, n)),
        yd(weir::empty<double>(home, n)),
        zd(weir::zeros<double>(home, n)) {
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<double>(i % 1000);
      y[i] = static_cast<double>(i % 777);
    }
    for (int k = 0; k < 4; ++k) streams.emplace_back(device, weir::StreamOptions{.blocking = false});
    home.synchronize();
  }

  void run_raw(const Cut& cut) {
    std::size_t lo = 0;
    std::size_t turn = 0;
    for (const std::size_t hi : cut.ends()) {
      const std::size_t count = hi - lo;
      cudaStream_t s = raw_streams[turn++ % cut.streams];
      cudaMemcpyAsync(xd.data() + lo, x.data() + lo, count * sizeof(double), cudaMemcpyHostToDevice, s);
      cudaMemcpyAsync(yd.data() + lo, y.data() + lo, count * sizeof(double), cudaMemcpyHostToDevice, s);
      add<<<static_cast<unsigned>((count + 255) / 256), 256, 0, s>>>(xd.data() + lo, yd.data() + lo, zd.data() + lo,
                                                                     count);
      cudaMemcpyAsync(z.data() + lo, zd.data() + lo, count * sizeof(double), cudaMemcpyDeviceToHost, s);
      lo = hi;
    }
    for (std::size_t k = 0; k < cut.streams; ++k) raw_streams[k].synchronize();
  }

  void run_ours(const Cut& cut) {
    std::size_t lo = 0;
    std::size_t turn = 0;
    for (const std::size_t hi : cut.ends()) {
      const weir::Stream& s = streams[turn++ % cut.streams];
      const auto xs = xd.slice(lo, hi);
      const auto ys = yd.slice(lo, hi);
      const auto zs = zd.slice(lo, hi);
      weir::copy(s, xs, x.slice(lo, hi));
      weir::copy(s, ys, y.slice(lo, hi));
      weir::launch(s, hi - lo, Add{}, weir::in(xs), weir::in(ys), weir::out(zs));
      weir::copy(s, z.slice(lo, hi), zs);
      lo = hi;
    }
    for (std::size_t k = 0; k < cut.streams; ++k) streams[k].synchronize();
  }

  /// The link's own limit: all bytes of both directions at once, and nothing in between.
  void run_bound() {
    cudaMemcpyAsync(xd.data(), x.data(), n * sizeof(double), cudaMemcpyHostToDevice, raw_streams[0]);
    cudaMemcpyAsync(yd.data(), y.data(), n * sizeof(double), cudaMemcpyHostToDevice, raw_streams[0]);
    cudaMemcpyAsync(z.data(), zd.data(), n * sizeof(double), cudaMemcpyDeviceToHost, raw_streams[1]);
    raw_streams[0].synchronize();
    raw_streams[1].synchronize();
  }

  void check(const Cut& cut) {
    std::fill(z.begin(), z.end(), -1.0);
    run_ours(cut);
    for (std::size_t i = 0; i < n; ++i) {
      if (z[i] != x[i] + y[i]) throw std::runtime_error("wrong sum at " + std::to_string(i) + ", " + cut.text());
    }
  }

  weir::Stream home;
  std::vector<weir::Stream> streams;
  raw::Stream raw_streams[4];
  weir::Array<double> x;
  weir::Array<double> y;
  weir::Array<double> z;
  weir::Array<double> xd;
  weir::Array<double> yd;
  weir::Array<double> zd;
};

double milliseconds(auto&& work) { return seconds(work) * 1e3; }

}  // namespace

void chunked(Context& context) {
  Vectors vectors(context.device);
  Options options = context.options;
  options.pause = {};
  constexpr Cut cuts[] = {{2, 16, 0}, {2, 16, 4}, {2, 12, 4}, {3, 16, 4}, {4, 24, 4}, {2, 32, 3}};
  const auto bound = [&] { return milliseconds([&] { vectors.run_bound(); }); };
  std::optional<Cut> best;
  Pair best_pair;
  for (const Cut& cut : cuts) {
    vectors.check(cut);
    const Pair pair = by_turns(
        options, [&] { return milliseconds([&] { vectors.run_raw(cut); }); },
        [&] { return milliseconds([&] { vectors.run_ours(cut); }); });
    if (best && pair.ours.median >= best_pair.ours.median) continue;
    best = cut;
    best_pair = pair;
  }
  context.report.add({"M1.raw", "M1: x + y, raw CUDA by the same cut", "ms", best_pair.ours, best_pair.raw, {}});
  const Pair pair = by_turns(options, bound, [&] { return milliseconds([&] { vectors.run_ours(*best); }); });
  raw::check_last();
  context.report.add({"M1",
                      "M1: x + y, beside the bare copies at once",
                      "ms",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.05), ahead_of(6.4, 5.97, pair, "ms")},
                      "Numba 6.42, PyTorch 6.40 ms; " + best->text()});
}

}  // namespace bench
