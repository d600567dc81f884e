// B11: a random graph of short tasks over many streams, beside the same tasks without any order.
#include <cstdint>
#include <random>
#include <vector>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"
#include "support/busy.hpp"
#include "work.hpp"

namespace bench {

namespace {

constexpr std::size_t window = 256;  ///< tasks wait for tasks at most so far back
constexpr std::size_t most_waits = 2;

struct Task {
  std::uint32_t stream;
  std::uint32_t waits = 0;
  std::uint32_t wait[most_waits] = {};  ///< numbers of earlier tasks
};

/// Each task on a random stream, after none, one or two random tasks before it.
std::vector<Task> random_tasks(std::size_t count, std::size_t streams) {
  std::mt19937 random(20240607);
  std::vector<Task> tasks;
  tasks.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    Task task{static_cast<std::uint32_t>(random() % streams)};
    const std::uint32_t wanted = i < window ? 0 : random() % (most_waits + 1);
    while (task.waits < wanted) task.wait[task.waits++] = i - 1 - random() % (window - 1);
    tasks.push_back(task);
  }
  return tasks;
}

}  // namespace

void random_graph(Context& context) {
  const std::vector<Task> tasks = random_tasks(context.options.cut(100'000), 64);
  const std::vector<weir::Stream> streams = make_streams(context.device, 64);
  std::vector<weir::Event> events;  // the last `window` tasks' marks, recorded again and again
  for (std::size_t i = 0; i < window; ++i) events.emplace_back(context.device);
  const std::size_t steps = busy_steps(5);

  const auto ours = [&] {
    return seconds([&] {
      for (std::size_t i = 0; i < tasks.size(); ++i) {
        const weir::StreamRef stream = streams[tasks[i].stream];
        for (std::size_t w = 0; w < tasks[i].waits; ++w) stream.wait(events[tasks[i].wait[w] % window]);
        weir::launch(stream, 1, [steps](std::size_t) {
          busy(steps);
          tally();
        });
        stream.record(events[i % window]);
      }
      context.device.synchronize();
    });
  };
  const auto rate = [&](double time) { return static_cast<double>(tasks.size()) / time * 1e-6; };
  const auto both = [&](auto&& time) { return rate(counted(tasks.size(), time)); };
  const Pair pair = by_turns(
      context.options, [&] { return both([&] { return raw::busy_tasks(tasks.size(), steps); }); },
      [&] { return both(ours); });
  context.report.add({"B11",
                      "64 streams, " + context.counts(100'000) + " tasks of 5 us, events",
                      "M/s",
                      pair.ours,
                      pair.raw,
                      {ratio_at_least(context.on_cores({{1, 0.9}, {32, 0.8}}))}});
}

}  // namespace bench
