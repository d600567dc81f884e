// N3: arrays divided by their sums, on one stream and on one stream each, alone and beside a busy process.
#include <algorithm>
#include <cmath>
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"

namespace bench {

namespace {

constexpr std::size_t arrays = 10;
constexpr std::size_t size = 2'000'000;
constexpr std::size_t block = 4096;
constexpr std::size_t blocks = (size + block - 1) / block;

struct BlockSum {
  WEIR_KERNEL void operator()(std::size_t b, weir::View<const double> a, weir::View<double> sums) const {
    if constexpr (sabotaged) return;
    const std::size_t end = std::min(a.size(), (b + 1) * block);
    double sum = 0;
    for (std::size_t i = b * block; i < end; ++i) sum += a[i];
    sums[b] = sum;
  }
};
struct Total {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double> sums, weir::View<double> total) const {
    if constexpr (sabotaged) return;
    double sum = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) sum += sums[i];
    total[0] = sum;
  }
};
struct Divide {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<double> a, weir::View<const double> total) const {
    if constexpr (sabotaged) return;
    a[i] /= total[0];
  }
};

struct Array {
  weir::Array<double> host, values, sums, total;
};

class Normalization {
 public:
  explicit Normalization(weir::Device device) : device_(device) {
    for (std::size_t i = 0; i < arrays; ++i) {
      const weir::Stream& s = streams_.emplace_back(device);
      arrays_.push_back({weir::full(weir::pinned, size, 1.0), weir::zeros<double>(s, size),
                         weir::zeros<double>(s, blocks), weir::zeros<double>(s, 1)});
    }
    device.synchronize();
  }

  double raw() {
    return measure([&] {
      for (Array& a : arrays_) raw::normalize(a.host.data(), a.values.data(), a.sums.data(), size, block);
    });
  }
  double ours(bool one_stream) {
    return measure([&] {
      for (std::size_t i = 0; i < arrays; ++i) enqueue(streams_[one_stream ? 0 : i], arrays_[i]);
      device_.synchronize();
    });
  }

 private:
  void enqueue(weir::StreamRef s, Array& a) {
    if constexpr (sabotaged) return;
    weir::copy(s, a.values, a.host);
    weir::launch(s, blocks, BlockSum{}, weir::in(a.values), weir::out(a.sums));
    weir::launch(s, 1, Total{}, weir::in(a.sums), weir::out(a.total));
    weir::launch(s, size, Divide{}, weir::inout(a.values), weir::in(a.total));
    weir::copy(s, a.host, a.values);
  }

  /// Milliseconds of work on fresh values, whose result is verified.
  template <class Work>
  double measure(Work&& work) {
    for (std::size_t a = 0; a < arrays; ++a) {
      for (std::size_t i = 0; i < size; ++i) arrays_[a].host[i] = static_cast<double>((i + a) % 8 + 1);
    }
    const double time = seconds(work);
    for (std::size_t a = 0; a < arrays; ++a) {
      const double sum = 4.5 * size;  // the size is a multiple of 8
      for (std::size_t i = 0; i < size; ++i) {
        const double expected = static_cast<double>((i + a) % 8 + 1) / sum;
        if (!(std::abs(arrays_[a].host[i] - expected) <= 1e-9 * expected)) {
          expect(false, "a wrong result");
          return time * 1e3;
        }
      }
    }
    return time * 1e3;
  }

  weir::Device device_;
  std::vector<weir::Stream> streams_;
  std::vector<Array> arrays_;
};

}  // namespace

void normalize(Context& context) {
  Normalization work(context.device);
  const auto beside = [&](auto&& figure) {
    context.neighbour.resume();
    const double time = figure();
    context.neighbour.pause();
    return time;
  };
  for (const bool one_stream : {true, false}) {
    const std::string on = one_stream ? "one stream" : "ten streams";
    const Pair alone = by_turns(
        context.options, [&] { return work.raw(); }, [&] { return work.ours(one_stream); });
    context.report.add({one_stream ? "N3.one" : "N3.ten",
                        "ten arrays by their sums, " + on,
                        "ms",
                        alone.ours,
                        alone.raw,
                        {ratio_at_most(1.1)}});
    const Pair taken = by_turns(
        context.options, [&] { return beside([&] { return work.raw(); }); },
        [&] { return beside([&] { return work.ours(one_stream); }); });
    context.report.add({.name = one_stream ? "N3.one.taken" : "N3.ten.taken",
                        .work = "the same, one core taken",
                        .unit = "ms",
                        .value = taken.ours,
                        .raw = taken.raw,
                        .reach = {ratio_at_most(1.3)},
                        .others_matter_not = true});
  }
}

}  // namespace bench
