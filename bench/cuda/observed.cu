// What it costs to be told of commands, and of their times, and to record a timeline: beside the same work without observers.
#include <utility>
#include <vector>

#include <weir/observer.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "bursts.hpp"
#include "observed.hpp"
#include "raw.hpp"
#include "sums.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

constexpr std::size_t watched_elements = 32;
constexpr std::size_t watched_launches = 500;
constexpr std::size_t many = 20'000'000;

/// Each launch counts up.
struct CountUp {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double>, weir::View<const double>, weir::View<double> z,
                              int) const {
    if constexpr (!sabotaged) {
      if (i == 0) z[0] += 1;
    }
  }
};

/// `watching` gives what observes a burst.
template <class Watching>
void launches(Context& context, Watching&& watching, Row row) {
  const weir::Stream s(context.device, {.blocking = false});
  const auto x = weir::zeros<double>(s, watched_elements);
  const auto z = weir::zeros<double>(s, watched_elements);
  s.synchronize();
  double launched = 0;
  const auto burst = [&] {
    return host_cost(
        watched_launches,
        [&] {
          weir::launch(s, watched_elements, CountUp{}, weir::in(x), weir::in(x), weir::inout(z), 1);
          ++launched;
        },
        [&] { s.synchronize(); });
  };
  const Pair pair = by_turns(bursts(context), burst, [&] {
    const auto watch = watching();
    return burst();
  });
  expect(z.to_host()[0] == launched, "a launch did not run");
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(std::move(row));
}

/// Times that kernels tell beside those of events around them.
void additions(Context& context) {
  const weir::Stream s(context.device, {.blocking = false});
  const auto x = weir::full(s, many, 1.0);
  const auto y = weir::full(s, many, 2.0);
  const auto z = weir::zeros<double>(s, many);
  const weir::TimedEvent begin(context.device);
  const weir::TimedEvent end(context.device);
  constexpr std::size_t turns = 20;
  const auto add_all = [&] {
    return whole_cost(
        turns, [&] { weir::launch(s, many, Add{}, weir::in(x), weir::in(y), weir::out(z)); }, [&] { s.synchronize(); });
  };
  Listener listener;
  const Pair pair = by_turns(bursts(context), add_all, [&] {
    const Listening listening(listener, weir::Watch::times);
    return add_all();
  });
  expect(z.to_host()[many - 1] == 3.0, "an addition did not run");
  context.report.add({"observe.cuda.work",
                      "20,000,000 additions with times, beside without",
                      "us",
                      pair.ours,
                      pair.raw,
                      {ratio_at_most(1.03)},
                      ""});

  // Events around one would count its launch, too, which is a tenth of it.
  std::vector<double> kernels;
  std::vector<double> told;
  std::vector<double> by_events;
  for (int i = 0; i < 21; ++i) {
    const Listening listening(listener, weir::Watch::times);
    listener.clear();
    s.record(begin);
    for (std::size_t turn = 0; turn < turns; ++turn) {
      weir::launch(s, many, Add{}, weir::in(x), weir::in(y), weir::out(z));
    }
    s.record(end);
    s.synchronize();
    const Listener::Told all = listener.told(turns + 2);  // the records ran, too, and took no time
    kernels.push_back(all.sum_us / turns);
    told.push_back(all.whole_us / turns);
    by_events.push_back(static_cast<double>(weir::elapsed(begin, end).count()) * 1e3 / turns);
  }
  context.report.add(
      {"observe.cuda.told",
       "20,000,000 additions, 20 in a row, from the first's begin to the last's end as told, beside events",
       "us",
       spread(told),
       spread(by_events),
       {ratio_at_most(1.01), ratio_at_least(0.99)},
       ""});
  // Events count what is between two kernels, too.
  context.report.add({"observe.cuda.kernels",
                      "the same, the kernels' own times as told",
                      "us",
                      spread(kernels),
                      spread(by_events),
                      {ratio_at_most(1.01), ratio_at_least(0.95)},
                      ""});
}

}  // namespace

void observed(Context& context) {
  Listener listener;
  launches(
      context, [&] { return Listening(listener, weir::Watch::times); },
      {"observe.cuda.launch", "launch with times, beside without observers", "us", {}, {}, {ratio_at_most(1.03)}, ""});
  launches(context, [&] { return Listening(listener, weir::Watch::commands); },
           {"observe.cuda.untimed",
            "launch with an observer that wants no times, beside without",
            "us",
            {},
            {},
            {ratio_at_most(1.0)},
            ""});
  launches(context, [] { return weir::trace::Session(); },
           {"trace.cuda.launch",
            "launch that a session records, beside without",
            "us",
            {},
            {},
            {ratio_at_most(1.05)},
            "CUPTI 1.4 times, PyTorch's profiler 1.45 to 1.7"});
  additions(context);
}

}  // namespace bench
