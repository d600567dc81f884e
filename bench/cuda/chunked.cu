// M1: z = x + y over 20,000,000 doubles, pinned host memory to pinned host memory, by two streams, in pieces.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "bench.hpp"
#include "observed.hpp"
#include "raw.hpp"
#include "sums.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

constexpr std::size_t n = 20'000'000;

struct AddRows {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double, 2> rows, weir::View<double> sums) const {
    if constexpr (!sabotaged) sums[i] = rows(0, i) + rows(1, i);
  }
};

/// Each piece is `share` of what is left, and no shorter than `least`: what is left when the last bytes arrive is short, and
/// there are few pieces. Each costs the link a microsecond or two.
struct Cut {
  double share;
  std::size_t least;

  std::vector<std::size_t> ends() const {
    std::vector<std::size_t> ends;
    std::size_t lo = 0;
    for (;;) {
      const auto part = std::max(least, static_cast<std::size_t>(static_cast<double>(n - lo) * share));
      lo += (part + 511) / 512 * 512;
      if (lo >= n) break;
      ends.push_back(lo);
    }
    ends.push_back(n);
    return ends;
  }
  std::string text() const {
    return std::to_string(ends().size()) + " pieces, each " +
           std::to_string(static_cast<int>(std::lround(share * 100))) + " % of what is left, " + std::to_string(least) +
           " at least";
  }
};

struct Vectors {
  explicit Vectors(weir::Device device)
      : home(device, {.blocking = false}),
        work(device, {.blocking = false}),
        xy(weir::empty<double>(weir::pinned, {2, n})),
        z(weir::full(weir::pinned, n, 0.0)),
        raw_z(weir::full(weir::pinned, n, 0.0)),
        xyd(weir::empty<double>(home, {2, n})),
        zd(weir::zeros<double>(home, n)) {
    for (std::size_t i = 0; i < n; ++i) {
      xy.data()[i] = static_cast<double>(i % 1000);
      xy.data()[n + i] = static_cast<double>(i % 777);
    }
    home.synchronize();
  }

  /// One stream brings the pieces, the other one works on what has come and takes it back: so the link's next piece always
  /// stands behind the one that it brings. A piece is one copy of two rows.
  void run_raw(const Cut& cut) {
    double* const x = xyd.data();
    std::size_t lo = 0;
    std::size_t piece = 0;
    for (const std::size_t hi : cut.ends()) {
      const std::size_t count = hi - lo;
      cudaMemcpy2DAsync(x + lo, n * sizeof(double), xy.data() + lo, n * sizeof(double), count * sizeof(double), 2,
                        cudaMemcpyHostToDevice, raw_streams[0]);
      cudaEventRecord(raw_events[piece], raw_streams[0]);
      cudaStreamWaitEvent(raw_streams[1], raw_events[piece++], 0);
      add<<<static_cast<unsigned>((count + 255) / 256), 256, 0, raw_streams[1]>>>(x + lo, x + n + lo, zd.data() + lo,
                                                                                  count);
      cudaMemcpyAsync(raw_z.data() + lo, zd.data() + lo, count * sizeof(double), cudaMemcpyDeviceToHost,
                      raw_streams[1]);
      lo = hi;
    }
    raw_streams[1].synchronize();
  }

  void run_ours(const Cut& cut) {
    std::size_t lo = 0;
    for (const std::size_t hi : cut.ends()) {
      const auto piece = xyd.slice({{0, 2}, {lo, hi}});
      const auto zs = zd.slice(lo, hi);
      weir::copy(home, piece, xy.slice({{0, 2}, {lo, hi}}));
      work.wait(home);
      weir::launch(work, hi - lo, AddRows{}, weir::in(piece), weir::out(zs));
      weir::copy(work, z.slice(lo, hi), zs);
      lo = hi;
    }
    work.synchronize();
  }

  /// The link's own limit: all bytes of both directions at once, and nothing in between.
  void run_bound() {
    cudaMemcpyAsync(xyd.data(), xy.data(), 2 * n * sizeof(double), cudaMemcpyHostToDevice, raw_streams[0]);
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
      if (results[i] == xy.data()[i] + xy.data()[n + i] + more) continue;
      expect(false, "wrong sum at " + std::to_string(i) + ", " + cut.text() + (ours ? "" : ", by hand"));
      return;
    }
  }

  weir::Stream home;
  weir::Stream work;
  raw::Stream raw_streams[2];
  raw::Event raw_events[64];
  weir::Array<double> xy;
  weir::Array<double> z;
  weir::Array<double> raw_z;
  weir::Array<double> xyd;
  weir::Array<double> zd;
};

double milliseconds(auto&& work) { return seconds(work) * 1e3; }

}  // namespace

void chunked(Context& context) {
  Vectors vectors(context.device);
  Options options = context.options;
  options.pause = {};
  constexpr Cut cuts[] = {{0.15, 60'000},  {0.15, 150'000}, {0.25, 60'000},
                          {0.25, 150'000}, {0.35, 60'000},  {0.35, 150'000}};
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
  const Pair traced = by_turns(
      options, [&] { return ours_by(best); },
      [&] {
        const weir::trace::Session session;
        return ours_by(best);
      });
  vectors.prove(best, true);
  context.report.add({"trace.cuda.m1",
                      "M1: x + y that a session records, beside without",
                      "ms",
                      traced.ours,
                      traced.raw,
                      {ratio_at_most(1.02)},
                      best.text()});
}

}  // namespace bench
