// The algorithms beside CUB's own calls on the same numbers, with scratch memory that is kept.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <cub/device/device_histogram.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_select.cuh>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

struct IsOdd {
  WEIR_KERNEL bool operator()(std::int32_t value) const { return value % 2 != 0; }
};

constexpr int bins = 256;
constexpr std::int32_t limit = 1'000'000'000;

class Algorithms {
 public:
  Algorithms(weir::Device device, std::size_t n) : stream_(device, {.blocking = false}) {
    std::vector<std::int32_t> values(n);
    std::minstd_rand random(1);
    std::uniform_int_distribution<std::int32_t> any(0, limit - 1);
    for (std::int32_t& value : values) value = any(random);
    from_ = weir::from(stream_, values);
    for (weir::Array<std::int32_t>* array : {&ours_, &by_hand_, &other_}) {
      *array = weir::zeros<std::int32_t>(stream_, n);
    }
    for (weir::Array<std::int32_t>* array : {&counts_, &counted_}) *array = weir::zeros<std::int32_t>(stream_, bins);
    for (weir::Array<std::int64_t>* array : {&chosen_, &chosen_by_hand_}) {
      *array = weir::zeros<std::int64_t>(stream_, 1);
    }
    scratch_ = weir::empty<char>(stream_, std::size_t{256} << 20);
    stream_.synchronize();
  }

  void add_rows(Context& context) {
    const auto n = static_cast<std::int64_t>(from_.size());
    row(
        context, "sort",
        [&](void* scratch, std::size_t& bytes) {
          cub::DoubleBuffer<std::int32_t> keys(by_hand_.view().data(), other_.view().data());
          cudaMemcpyAsync(keys.Current(), from_.data(), static_cast<std::size_t>(n) * sizeof(std::int32_t),
                          cudaMemcpyDeviceToDevice, raw_);
          cub::DeviceRadixSort::SortKeys(scratch, bytes, keys, n, 0, 32, raw_);
        },
        [&] {
          weir::copy(stream_, ours_, from_);
          weir::sort(stream_, ours_);
        });
    row(
        context, "select",
        [&](void* scratch, std::size_t& bytes) {
          cub::DeviceSelect::If(scratch, bytes, from_.data(), by_hand_.view().data(), chosen_by_hand_.view().data(), n,
                                IsOdd{}, raw_);
        },
        [&] { weir::select_if(stream_, from_, ours_, chosen_, IsOdd{}); });
    row(
        context, "scan",
        [&](void* scratch, std::size_t& bytes) {
          cub::DeviceScan::ExclusiveSum(scratch, bytes, from_.data(), by_hand_.view().data(), n, raw_);
        },
        [&] { weir::exclusive_scan(stream_, from_, ours_); });
    row(
        context, "histogram",
        [&](void* scratch, std::size_t& bytes) {
          cub::DeviceHistogram::HistogramEven(scratch, bytes, from_.data(), counted_.view().data(), bins + 1, 0, limit,
                                              n, raw_);
        },
        [&] { weir::histogram(stream_, from_, counts_, 0, limit); });
  }

 private:
  template <class Raw, class Ours>
  void row(Context& context, const char* name, const Raw& raw, const Ours& ours) {
    constexpr int times = 20;
    Options options = context.options;
    options.pause = {};
    for (const weir::Array<std::int32_t>* array : {&ours_, &by_hand_, &counts_, &counted_}) {
      weir::fill(stream_, *array, 0);
    }
    stream_.synchronize();
    const Pair pair = by_turns(
        options,
        [&] {
          const double time = seconds([&] {
            for (int i = 0; i < times; ++i) {
              std::size_t bytes = scratch_.size();
              raw(scratch_.view().data(), bytes);
            }
            raw_.synchronize();
          });
          return time / times * 1e6;
        },
        [&] {
          const double time = seconds([&] {
            if constexpr (!sabotaged) {
              for (int i = 0; i < times; ++i) ours();
            }
            stream_.synchronize();
          });
          return time / times * 1e6;
        });
    raw::check_last();
    expect(ours_.to_host(stream_) == by_hand_.to_host(stream_) && counts_.to_host(stream_) == counted_.to_host(stream_),
           std::string("other results than CUB's: ") + name);
    context.report.add({std::string("algorithms.") + name,
                        std::to_string(from_.size()) + " numbers, 20 times and a wait, beside CUB's own call",
                        "us",
                        pair.ours,
                        pair.raw,
                        {ratio_at_most(1.05)}});
  }

  weir::Stream stream_;
  raw::Stream raw_;
  weir::Array<std::int32_t> from_;
  weir::Array<std::int32_t> ours_;
  weir::Array<std::int32_t> by_hand_;
  weir::Array<std::int32_t> other_;
  weir::Array<std::int32_t> counts_;
  weir::Array<std::int32_t> counted_;
  weir::Array<std::int64_t> chosen_;
  weir::Array<std::int64_t> chosen_by_hand_;
  weir::Array<char> scratch_;
};

}  // namespace

void algorithms(Context& context) { Algorithms(context.device, context.options.cut(16'000'000)).add_rows(context); }

}  // namespace bench
