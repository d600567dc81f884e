// M1: z = x + y over 20,000,000 doubles, pinned host memory to pinned host memory, by k streams and chunks.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "observed.hpp"
#include "raw.hpp"
#include "sums.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

constexpr std::size_t n = 20'000'000;

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
        raw_z(weir::full(weir::pinned, n, 0.0)),
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
      cudaMemcpyAsync(raw_z.data() + lo, zd.data() + lo, count * sizeof(double), cudaMemcpyDeviceToHost, s);
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

  /// What a cut gives by ours and by hand, in full.
  void prove(const Cut& cut, bool ours) {
    weir::Array<double>& results = ours ? z : raw_z;
    std::fill(results.begin(), results.end(), -1.0);
    ours ? run_ours(cut) : run_raw(cut);
    const double more = ours ? 0.0 : more_by_hand;
    for (std::size_t i = 0; i < n; ++i) {
      if (results[i] == x[i] + y[i] + more) continue;
      expect(false, "wrong sum at " + std::to_string(i) + ", " + cut.text() + (ours ? "" : ", by hand"));
      return;
    }
  }

  weir::Stream home;
  std::vector<weir::Stream> streams;
  raw::Stream raw_streams[4];
  weir::Array<double> x;
  weir::Array<double> y;
  weir::Array<double> z;
  weir::Array<double> raw_z;
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
  constexpr Cut cuts[] = {{2, 16, 0}, {2, 16, 4}, {2, 12, 4}, {2, 8, 5}, {3, 8, 5}, {3, 16, 4}, {4, 24, 4}, {2, 32, 3}};
  const auto bound = [&] { return milliseconds([&] { vectors.run_bound(); }); };
  const auto raw_by = [&](const Cut& cut) { return milliseconds([&] { vectors.run_raw(cut); }); };
  const auto ours_by = [&](const Cut& cut) { return milliseconds([&] { vectors.run_ours(cut); }); };
  // Each side has the cut that suits it, found in turns that count for nothing else: a row of the turns in which one was best
  // would be luck.
  Cut best = cuts[0];
  Cut raw_best = cuts[0];
  Pair fastest;
  for (const Cut& cut : cuts) {
    const Pair pair = by_turns(
        options, [&] { return raw_by(cut); }, [&] { return ours_by(cut); });
    const bool first = &cut == cuts;
    if (first || pair.ours.median < fastest.ours.median) {
      fastest.ours = pair.ours;
      best = cut;
    }
    if (first || pair.raw.median < fastest.raw.median) {
      fastest.raw = pair.raw;
      raw_best = cut;
    }
  }
  const Pair by_hand = by_turns(
      options, [&] { return raw_by(raw_best); }, [&] { return ours_by(best); });
  raw::check_last();
  vectors.prove(best, true);
  vectors.prove(raw_best, false);
  context.report.add({"M1.raw",
                      "M1: x + y, beside raw CUDA by the cut that suits it",
                      "ms",
                      by_hand.ours,
                      by_hand.raw,
                      {},
                      "raw: " + raw_best.text()});
  const Pair pair = by_turns(options, bound, [&] { return milliseconds([&] { vectors.run_ours(best); }); });
  raw::check_last();
  vectors.prove(best, true);
  context.report.add({"M1",
                      "M1: x + y, beside the bare copies at once",
                      "ms",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.02), ahead_of(6.4, 5.97, pair, "ms")},
                      "Numba 6.42, PyTorch 6.40 ms; " + best.text()});
  Listener listener;
  const Pair told = by_turns(
      options, [&] { return ours_by(best); },
      [&] {
        const Listening listening(listener, weir::Watch::times);
        return ours_by(best);
      });
  vectors.prove(best, true);
  context.report.add({"observe.cuda.m1",
                      "M1: x + y with times, beside without",
                      "ms",
                      told.ours,
                      told.raw,
                      {ratio_at_most(1.02)},
                      best.text()});
}

}  // namespace bench
