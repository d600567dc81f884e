// The algorithms on 16,000,000 numbers, beside the standard library's on one thread.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"

namespace bench {

namespace {

struct IsOdd {
  bool operator()(std::int32_t value) const { return value % 2 != 0; }
};

constexpr std::size_t bins = 256;
constexpr std::int32_t limit = 1'000'000'000;

class Algorithms {
 public:
  Algorithms(weir::Device device, std::size_t n)
      : stream_(device), from_(n), by_hand_(n), counted_(bins), chosen_(weir::zeros<std::int64_t>(stream_, 1)) {
    std::minstd_rand random(1);
    std::uniform_int_distribution<std::int32_t> any(0, limit - 1);
    for (std::int32_t& value : from_) value = any(random);
    x_ = weir::from(stream_, from_);
    y_ = weir::zeros<std::int32_t>(stream_, n);
    counts_ = weir::zeros<std::int32_t>(stream_, bins);
    stream_.synchronize();
  }

  void add_rows(Context& context) {
    row(
        context, "sort", 0.5, [&] { std::sort(by_hand_.begin(), by_hand_.end()); }, [&] { weir::sort(stream_, y_); });
    row(
        context, "sort_by_order", 0.9, [&] { std::sort(by_hand_.begin(), by_hand_.end(), by_last_digits); },
        [&] { weir::sort(stream_, y_, by_last_digits); });
    row(
        context, "select", 0.5, [&] { std::copy_if(from_.begin(), from_.end(), by_hand_.begin(), IsOdd{}); },
        [&] { weir::select_if(stream_, x_, y_, chosen_, IsOdd{}); });
    row(
        context, "partition", 0.5, [&] { std::stable_partition(by_hand_.begin(), by_hand_.end(), IsOdd{}); },
        [&] { weir::partition(stream_, x_, y_, chosen_, IsOdd{}); });
    row(
        context, "scan", 1.0, [&] { std::exclusive_scan(from_.begin(), from_.end(), by_hand_.begin(), 0); },
        [&] { weir::exclusive_scan(stream_, x_, y_); });
    row(
        context, "histogram", 1.3, [&] { count_by_hand(); }, [&] { weir::histogram(stream_, x_, counts_, 0, limit); });
  }

 private:
  static constexpr auto by_last_digits = [](std::int32_t a, std::int32_t b) {
    return a % 1000 != b % 1000 ? a % 1000 < b % 1000 : a < b;
  };

  void count_by_hand() {
    std::fill(counted_.begin(), counted_.end(), 0);
    for (const std::int32_t value : from_) ++counted_[static_cast<std::size_t>(value) * bins / limit];
  }
  template <class Raw, class Ours>
  void row(Context& context, const char* name, double reach, const Raw& raw, const Ours& ours) {
    const Pair pair = by_turns(
        context.options,
        [&] {
          std::copy(from_.begin(), from_.end(), by_hand_.begin());
          return 1e3 * seconds(raw);
        },
        [&] {
          weir::copy(stream_, y_, x_);
          stream_.synchronize();
          return 1e3 * seconds([&] {
                   if constexpr (!sabotaged) ours();
                   stream_.synchronize();
                 });
        });
    expect(y_.to_host(stream_) == by_hand_ && counts_.to_host(stream_) == counted_,
           std::string("other results than the standard library's: ") + name);
    context.report.add({std::string("algorithms.") + name,
                        std::to_string(from_.size()) + " numbers, beside one thread of the standard library",
                        "ms",
                        pair.ours,
                        pair.raw,
                        {ratio_at_most(reach)}});
  }

  weir::Stream stream_;
  std::vector<std::int32_t> from_;
  std::vector<std::int32_t> by_hand_;
  std::vector<std::int32_t> counted_;
  weir::Array<std::int32_t> x_;
  weir::Array<std::int32_t> y_;
  weir::Array<std::int32_t> counts_;
  weir::Array<std::int64_t> chosen_;
};

}  // namespace

void algorithms(Context& context) { Algorithms(context.device, context.options.cut(16'000'000)).add_rows(context); }

}  // namespace bench
