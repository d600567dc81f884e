// Large kernels behind a host function that may still fail: they ask first whether it did.
#include <atomic>
#include <thread>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw.hpp"
#include "sums.hpp"
#include "support/proof.hpp"

namespace bench {

void guarded(Context& context) {
  constexpr std::size_t n = 20'000'000, turns = 20;
  const weir::Stream s(context.device, {.blocking = false});
  const auto x = weir::full(s, n, 1.0);
  const auto y = weir::full(s, n, 2.0);
  const auto z = weir::zeros<double>(s, n);
  const weir::TimedEvent begin(context.device);
  const weir::TimedEvent end(context.device);
  s.synchronize();
  // Of the kernels alone: all stand in the stream before the first begins.
  const auto add_all = [&](bool in_doubt) {
    std::atomic<bool> open{false};
    if (in_doubt) {
      weir::host_call(s, [&open] {
        while (!open) std::this_thread::yield();
      });
    }
    s.record(begin);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      weir::launch(s, n, Add{}, weir::in(x), weir::in(y), weir::out(z));
    }
    s.record(end);
    open = true;
    s.synchronize();
    return static_cast<double>(weir::elapsed(begin, end).count()) * 1e3 / turns;
  };
  const Pair pair = by_turns(
      context.options, [&] { return add_all(false); }, [&] { return add_all(true); });
  raw::check_last();
  expect(z.to_host()[n - 1] == 3.0, "an addition did not run");
  context.report.add({"guarded.work",
                      "20,000,000 additions behind a host function that may still fail, beside without",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.15)},
                      ""});
}

}  // namespace bench
