// Many: host threads that launch at once, and streams beyond the room that a device makes when it starts.
#include <atomic>
#include <deque>
#include <string>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "bursts.hpp"
#include "raw.hpp"
#include "support/proof.hpp"

namespace bench {

namespace {

/// Adds one: launches of one stream do not meet, so nothing is lost, and the sum says how many ran.
__global__ void count_one(int* counter) {
  if constexpr (!sabotaged) ++*counter;
}

struct CountOne {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int> counter) const {
    if constexpr (!sabotaged) ++counter[0];
  }
};

/// One host thread's stream and counter, both ways.
struct Lane {
  explicit Lane(weir::Device device)
      : stream(device, {.blocking = false}), ours(weir::zeros<int>(stream, 1)), raws(weir::zeros<int>(stream, 1)) {
    launch_ours();
    launch_raw();
    wait();
  }
  void launch_ours() const { weir::launch(stream, 1, CountOne{}, weir::inout(ours)); }
  void launch_raw() const { count_one<<<1, 1, 0, raw_stream>>>(raws.data()); }
  void wait() const {
    stream.synchronize();
    raw_stream.synchronize();
  }

  weir::Stream stream;
  raw::Stream raw_stream;
  weir::Array<int> ours;
  weir::Array<int> raws;
};

/// Threads that wait for the same moment, and then all do the same.
class Team {
 public:
  Team(weir::Device device, std::size_t threads) {
    for (std::size_t t = 0; t < threads; ++t) lanes_.emplace_back(device);
  }
  /// Microseconds until all have made their launches, for each launch of the slowest.
  template <class Call>
  double burst(std::size_t count, const Call& call) {
    std::atomic<std::size_t> ready{0};
    std::atomic<bool> go{false};
    std::vector<std::thread> threads;
    for (const Lane& lane : lanes_) {
      threads.emplace_back([&] {
        ++ready;
        while (!go) {
        }
        for (std::size_t i = 0; i < count; ++i) call(lane);
      });
    }
    while (ready < lanes_.size()) std::this_thread::yield();
    const double time = seconds([&] {
      go = true;
      for (std::thread& thread : threads) thread.join();
    });
    for (const Lane& lane : lanes_) lane.wait();
    return time / static_cast<double>(count) * 1e6;
  }
  /// Each lane was launched to so often.
  void prove(std::size_t launches) const {
    for (const Lane& lane : lanes_) {
      expect(lane.ours.to_host()[0] == static_cast<int>(launches), "launches are missing");
      expect(lane.raws.to_host()[0] == static_cast<int>(launches), "raw launches are missing");
    }
  }

 private:
  std::deque<Lane> lanes_;
};

}  // namespace

void launches_by_threads(Context& context) {
  constexpr std::size_t count = 500;  // below the 1,021 launches that the driver takes before it blocks
  for (const std::size_t threads : {1, 2, 4, 8}) {
    Team team(context.device, threads);
    const Options options = bursts(context);
    const Pair pair = by_turns(
        options, [&] { return team.burst(count, [](const Lane& lane) { lane.launch_raw(); }); },
        [&] { return team.burst(count, [](const Lane& lane) { lane.launch_ours(); }); });
    raw::check_last();
    team.prove(1 + count * (options.repetitions + 1));
    context.report.add({"launch.threads_" + std::to_string(threads),
                        "launch, " + std::to_string(threads) + " threads to streams of their own",
                        "us",
                        pair.ours,
                        pair.raw,
                        {ratio_at_most(1.0)}});
  }
}

/// Once in a process: streams are used again.
void many_streams(Context& context) {
  const std::size_t count = 3000;
  const weir::Stream home(context.device, {.blocking = false});
  const auto ours = weir::zeros<int>(home, count);
  const auto raws = weir::zeros<int>(home, count);
  home.synchronize();
  std::deque<weir::Stream> streams;
  const double our_time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      streams.emplace_back(context.device, weir::StreamOptions{.blocking = false});
      weir::launch(streams.back(), 1, CountOne{}, weir::inout(ours.slice(i, i + 1)));
    }
  });
  context.device.synchronize();
  std::deque<raw::Stream> raw_streams;
  const double raw_time = seconds([&] {
    for (std::size_t i = 0; i < count; ++i) {
      raw_streams.emplace_back();
      count_one<<<1, 1, 0, raw_streams.back()>>>(raws.data() + i);
    }
  });
  context.device.synchronize();
  raw::check_last();
  const std::vector<int> all(count, 1);
  expect(ours.to_host() == all, "a stream did not run its launch");
  expect(raws.to_host() == all, "a raw stream did not run its launch");
  const auto figure = [&](double time) { return spread({time / static_cast<double>(count) * 1e6}); };
  context.report.add({"streams.many",
                      "open 3,000 streams, with a launch each",
                      "us",
                      figure(our_time),
                      figure(raw_time),
                      {at_most(20, "us")},
                      "the raw ones come after them"});
}

}  // namespace bench
