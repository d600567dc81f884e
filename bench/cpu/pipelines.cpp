// A video in three stages, alone and beside a busy process, and launches by several host threads.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"
#include "support/busy.hpp"
#include "work.hpp"

namespace bench {

namespace {

constexpr std::size_t stages = 3;
constexpr std::size_t slots = 4;  ///< frames between the first stage and the last

/// A stream for each stage; a frame goes from one to the next by events, and its slot back to the first.
class Video {
 public:
  Video(weir::Device device, std::size_t frames, std::size_t steps)
      : streams_(make_streams(device, stages)), frames_(frames), steps_(steps) {
    for (std::size_t e = 0; e < stages * slots; ++e) done_.emplace_back(device);
  }
  double operator()() {
    return 1e3 * seconds([this] {
             for (std::size_t f = 0; f < frames_; ++f) enqueue(f);
             for (const weir::Stream& stream : streams_) stream.synchronize();
           });
  }

 private:
  void enqueue(std::size_t frame) {
    const std::size_t slot = frame % slots;
    for (std::size_t s = 0; s < stages; ++s) {
      if (s != 0) streams_[s].wait(done_[(s - 1) * slots + slot]);
      if (s == 0 && frame >= slots) streams_[s].wait(done_[(stages - 1) * slots + slot]);
      weir::launch(streams_[s], 1, [steps = steps_](std::size_t) {
        busy(steps);
        tally();
      });
      streams_[s].record(done_[s * slots + slot]);
    }
  }

  std::vector<weir::Stream> streams_;
  std::vector<weir::Event> done_;
  std::size_t frames_;
  std::size_t steps_;
};

double launches_by_threads(const std::vector<weir::Stream>& streams, std::size_t count) {
  std::atomic<bool> go{false};
  std::vector<std::thread> producers;
  for (const weir::Stream& stream : streams) {
    producers.emplace_back([&] {
      while (!go.load(std::memory_order_acquire)) std::this_thread::yield();
      for (std::size_t i = 0; i < count; ++i) weir::launch(stream, 1, [](std::size_t) { tally(); });
      stream.synchronize();
    });
  }
  const double time = seconds([&] {
    go.store(true, std::memory_order_release);
    for (std::thread& producer : producers) producer.join();
  });
  return static_cast<double>(streams.size() * count) / time * 1e-6;
}

}  // namespace

void video(Context& context) {
  const std::size_t frames = context.options.cut(100);
  const std::size_t steps = busy_steps(1000);
  Video ours(context.device, frames, steps);
  const auto raw_time = [&] {
    return counted(stages * frames, [&] { return raw::video(stages, frames, slots, steps); });
  };
  const auto our_time = [&] { return counted(stages * frames, ours); };
  const std::string what = "a video of " + std::to_string(frames) + " frames, 3 stages of 1 ms";
  const Pair alone = by_turns(context.options, raw_time, our_time);
  context.report.add({"video", what + ", beside threads", "ms", alone.ours, alone.raw, {ratio_at_most(1.05)}});
  const auto beside = [&](auto&& time) {
    context.neighbour.resume();
    const double figure = time();
    context.neighbour.pause();
    return figure;
  };
  const Pair taken = by_turns(
      context.options, [&] { return beside(raw_time); }, [&] { return beside(our_time); });
  context.report.add({.name = "video.taken",
                      .work = what + ", one core taken",
                      .unit = "ms",
                      .value = taken.ours,
                      .raw = taken.raw,
                      .reach = {ratio_at_most(1.05)},
                      .others_matter_not = true});
}

void threads(Context& context) {
  for (const std::size_t count : {1, 2, 4, 8}) {
    const std::size_t launches = context.options.cut(400'000 / count);
    const std::vector<weir::Stream> streams = make_streams(context.device, count);
    const auto all = [&](auto&& figure) { return counted(count * launches, figure); };
    const Pair pair = by_turns(
        context.options, [&] { return all([&] { return raw::threads_launch_rate(count, launches); }); },
        [&] { return all([&] { return launches_by_threads(streams, launches); }); });
    context.report.add({"threads." + std::to_string(count),
                        "launches by " + std::to_string(count) + " host threads, a stream each, wait",
                        "M/s",
                        pair.ours,
                        pair.raw,
                        {}});
  }
}

}  // namespace bench
