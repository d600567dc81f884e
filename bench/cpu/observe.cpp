// observe.*: what an observer that does nothing, and a recorder, add to launches, beside the same launches that nobody observes.
#include <string>
#include <thread>
#include <vector>

#include <weir/observer.hpp>
#include <weir/recorder.hpp>

#include "added.hpp"
#include "bench.hpp"
#include "work.hpp"

namespace bench {

namespace {

struct Recording {
  static constexpr const char* name = "recorder";
  void look() { expect(recorder.dropped() == 0 && recorder.finish().size() > 0, "launches are not in the recording"); }
  weir::Recorder recorder;
};

struct Quiet final : weir::Observer {};

class Observed {
 public:
  Observed(Quiet& observer, weir::Watch watch) : observer_(observer) { weir::attach(observer, watch); }
  ~Observed() { weir::detach(observer_); }
  Observed(const Observed&) = delete;
  Observed& operator=(const Observed&) = delete;

 private:
  Quiet& observer_;
};

/// Launches of all threads, each on a stream of its own, and waits for them. Nanoseconds that a launch takes its thread.
double nanoseconds(const std::vector<weir::Stream>& streams, std::size_t count) {
  const auto launches = [count](const weir::Stream& stream) {
    for (std::size_t i = 0; i < count; ++i) weir::launch(stream, 1, [](std::size_t) { tally(); });
    stream.synchronize();
  };
  const double time = counted(count * streams.size(), [&] {
    return seconds([&] {
      std::vector<std::thread> threads;
      for (std::size_t i = 1; i < streams.size(); ++i) threads.emplace_back([&, i] { launches(streams[i]); });
      launches(streams[0]);
      for (std::thread& thread : threads) thread.join();
    });
  });
  return time * 1e9 / static_cast<double>(count);
}

void added(Context& context, Row row, std::size_t threads, weir::Watch watch) {
  const std::size_t count = context.options.cut(1'000'000) / threads;
  std::vector<weir::Stream> streams;
  for (std::size_t i = 0; i < threads; ++i) streams.emplace_back(context.device);
  Quiet observer;
  const Pair pair = by_turns(
      context.options, [&] { return nanoseconds(streams, count); },
      [&] {
        const Observed observed(observer, watch);
        return nanoseconds(streams, count);
      });
  row.unit = "ns";
  row.value = {pair.ours.median - pair.raw.median, pair.ours.low - pair.raw.median, pair.ours.high - pair.raw.median};
  row.note = "unobserved " + std::to_string(pair.raw.median).substr(0, 5) + " ns";
  context.report.add(row);
}

}  // namespace

void observe(Context& context) {
  const std::string launches = context.counts(1'000'000) + " launches";
  constexpr weir::Watch untimed =
      weir::Watch::commands | weir::Watch::memory | weir::Watch::host | weir::Watch::graphs | weir::Watch::refusals;
  added(context,
        {.name = "observe.launch", .work = launches + ", added by an empty observer", .reach = {at_most(40, "ns")}}, 1,
        untimed);
  added(context, {.name = "observe.launch.threads", .work = launches + " of 4 threads on 4 streams, added"}, 4,
        untimed);
  added(context, {.name = "observe.times", .work = launches + ", added by an observer that watches times, too"}, 1,
        weir::Watch::everything);
  added_by<Recording>(
      context, {.name = "observe.record", .work = "launches with 8 arguments, recorded", .reach = {at_most(150, "ns")}},
      context.options.cut(200'000), 2000, [&] { return Launches(context, 1, false); });
}

}  // namespace bench
