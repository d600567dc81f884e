// Vector addition in chunks on several streams, beside the same in one piece on one stream, and that beside OpenMP's loops. And by small
// chunks through memory that is used again, as one does where a GPU has no room for all.
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"
#include "work.hpp"

namespace bench {

namespace {

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> x, weir::View<const double> y,
                              weir::View<double> z) const {
    z[i] = x[i] + y[i];
  }
};

class Addition {
 public:
  Addition(weir::Device device, std::size_t n)
      : n_(n),
        streams_(make_streams(device, 80)),
        x_(weir::full(weir::pinned, n, 1.0)),
        y_(weir::full(weir::pinned, n, 2.0)),
        z_(weir::full(weir::pinned, n, 0.0)),
        there_x_(weir::zeros<double>(streams_[0], n)),
        there_y_(weir::zeros<double>(streams_[0], n)),
        there_z_(weir::zeros<double>(streams_[0], n)) {
    device.synchronize();
  }

  double raw() {
    return measure(
        [&] { raw::vadd(x_.data(), y_.data(), z_.data(), there_x_.data(), there_y_.data(), there_z_.data(), n_); });
  }
  double ours(std::size_t streams) {
    return measure([&] {
      const std::size_t chunk = n_ / streams;
      for (std::size_t s = 0; s < streams; ++s) {
        const std::size_t begin = s * chunk;
        enqueue(streams_[s], begin, s + 1 == streams ? n_ : begin + chunk, begin);
      }
      for (std::size_t s = 0; s < streams; ++s) streams_[s].synchronize();
    });
  }
  double raw_by_chunks() {
    return measure([&] {
      for_chunks([&](std::size_t, std::size_t begin, std::size_t end) {
        raw::vadd(x_.data() + begin, y_.data() + begin, z_.data() + begin, there_x_.data(), there_y_.data(),
                  there_z_.data(), end - begin);
      });
    });
  }
  /// Each stream uses its part of the device's memory again and again.
  double ours_by_chunks(std::size_t streams) {
    return measure([&] {
      for_chunks([&](std::size_t i, std::size_t begin, std::size_t end) {
        enqueue(streams_[i % streams], begin, end, i % streams * small_chunk);
      });
      for (std::size_t s = 0; s < streams; ++s) streams_[s].synchronize();
    });
  }

 private:
  static constexpr std::size_t small_chunk = (std::size_t{1} << 20) / sizeof(double);

  template <class F>
  void for_chunks(F f) const {
    for (std::size_t i = 0; i * small_chunk < n_; ++i) f(i, i * small_chunk, std::min(n_, (i + 1) * small_chunk));
  }
  void enqueue(weir::StreamRef s, std::size_t begin, std::size_t end, std::size_t there) {
    if constexpr (sabotaged) return;
    const std::size_t there_end = there + (end - begin);
    const auto x = there_x_.slice(there, there_end);
    const auto y = there_y_.slice(there, there_end);
    const auto z = there_z_.slice(there, there_end);
    weir::copy(s, x, x_.slice(begin, end));
    weir::copy(s, y, y_.slice(begin, end));
    weir::launch(s, end - begin, Add{}, weir::in(x), weir::in(y), weir::out(z));
    weir::copy(s, z_.slice(begin, end), z);
  }

  /// Milliseconds of an addition with an x of its own, whose result is verified.
  template <class Work>
  double measure(Work&& work) {
    value_ += 1;
    std::fill(x_.data(), x_.data() + n_, value_);
    const double time = seconds(work);
    const double expected = value_ + 2;
    expect(std::all_of(z_.data(), z_.data() + n_, [=](double z) { return z == expected; }), "a wrong sum");
    return time * 1e3;
  }

  std::size_t n_;
  std::vector<weir::Stream> streams_;
  weir::Array<double> x_, y_, z_, there_x_, there_y_, there_z_;
  double value_ = 0;
};

/// Bytes of the one that the first core has, as the kernel says: sysconf() counts all of a package's on some processors.
std::size_t last_level_cache() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  std::size_t kib = 0;
  if (file >> kib) return kib * 1024;
  return static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL3_CACHE_SIZE)));
}

}  // namespace

void vadd(Context& context) {
  constexpr std::size_t n = 8'000'000;
  Addition work(context.device, n);
  const std::string what = "x + y, " + Context::grouped(n) + " doubles, ";
  const Pair one = by_turns(
      context.options, [&] { return work.raw(); }, [&] { return work.ours(1); });
  context.report.add({"vadd.1", what + "one stream, beside OpenMP", "ms", one.ours, one.raw, {ratio_at_most(1.1)}});
  const std::size_t cache = last_level_cache();
  for (const std::size_t streams : {2, 5, 10, 20, 40, 80}) {
    const Pair pair = by_turns(
        context.options, [&] { return work.ours(1); }, [&] { return work.ours(streams); });
    // Each worker has a chunk of three arrays here and three there.
    const bool fits = 6 * sizeof(double) * (n / streams) * static_cast<std::size_t>(context.cores) <= cache;
    context.report.add(
        {"vadd." + std::to_string(streams),
         what + std::to_string(streams) + " streams, beside one" + (fits ? "; chunks fit the cache" : ""),
         "ms",
         pair.ours,
         pair.raw,
         {ratio_at_most(fits ? 1 / 1.2 : 1 / 0.98)}});
  }
  for (const std::size_t streams : {1, 2, 4}) {
    const Pair pair = by_turns(
        context.options, [&] { return work.raw_by_chunks(); }, [&] { return work.ours_by_chunks(streams); });
    context.report.add({"vadd.chunks_" + std::to_string(streams),
                        "the same by chunks of 1 MiB, " + std::to_string(streams) + " streams, beside OpenMP",
                        "ms",
                        pair.ours,
                        pair.raw,
                        {ratio_at_most(1.1)}});
  }
}

}  // namespace bench
