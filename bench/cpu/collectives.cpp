// all_reduce of two ranks on the CPU device: large arrays, and two numbers with a wait.
#include <vector>

#include <weir/collectives.hpp>
#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"

namespace bench {

namespace {

class TwoRanks {
 public:
  TwoRanks(weir::Device device, std::size_t n) : n_(n), comms_(weir::communicators({device, device})) {
    for (std::size_t r = 0; r < 2; ++r) {
      const weir::Stream& s = streams_.emplace_back(device);
      x_.push_back(weir::full<float>(s, n, static_cast<float>(r + 1)));
      y_.push_back(weir::zeros<float>(s, n));
      s.synchronize();
    }
  }
  void run_raw() { raw::add_to_both(data(x_[0]), data(x_[1]), data(y_[0]), data(y_[1]), n_); }
  void run_ours() {
    if constexpr (sabotaged) return;
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(streams_[r], comms_[r], weir::in(x_[r]), weir::out(y_[r]));
    for (const weir::Stream& s : streams_) s.synchronize();
  }
  /// The figure of work that has to write both results.
  template <class Work>
  double verified(Work&& work) {
    for (std::size_t r = 0; r < 2; ++r) weir::fill(streams_[r], y_[r], 0.0f);
    for (const weir::Stream& s : streams_) s.synchronize();
    const double figure = work();
    for (const auto& y : y_) expect(data(y)[0] == 3 && data(y)[n_ - 1] == 3, "an all_reduce gave a wrong sum");
    return figure;
  }

 private:
  static float* data(const weir::Array<float>& array) { return array.view().data(); }

  std::size_t n_;
  std::vector<weir::Communicator> comms_;
  std::vector<weir::Stream> streams_;
  std::vector<weir::Array<float>> x_;
  std::vector<weir::Array<float>> y_;
};

}  // namespace

void collectives(Context& context) {
  {
    TwoRanks ranks(context.device, std::size_t{16} << 20);
    const Pair pair = by_turns(
        context.options, [&] { return ranks.verified([&] { return 1e3 * seconds([&] { ranks.run_raw(); }); }); },
        [&] { return ranks.verified([&] { return 1e3 * seconds([&] { ranks.run_ours(); }); }); });
    context.report.add({"all_reduce.large",
                        "two ranks, 64 MiB each, beside a loop",
                        "ms",
                        pair.ours,
                        pair.raw,
                        {ratio_at_most(1.05)}});
  }
  TwoRanks ranks(context.device, 2);
  const std::size_t count = context.options.cut(20'000);
  const Pair pair = by_turns(
      context.options, [&] { return raw::two_barriers(count); },
      [&] {
        return ranks.verified([&] {
          const double time = seconds([&] {
            for (std::size_t i = 0; i < count; ++i) ranks.run_ours();
          });
          return time / static_cast<double>(count) * 1e6;
        });
      });
  context.report.add({"all_reduce.small",
                      "two ranks, 8 bytes, and wait for both, beside two spin barriers",
                      "us",
                      pair.ours,
                      pair.raw,
                      {at_most(3, "us")}});
}

}  // namespace bench
