// Graphs: replays of nodes that count themselves beside a plain loop of calls, a random graph beside its work without order, updates.
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

constexpr auto counting_kernel = [](std::size_t) { tally(); };

/// Replays of a graph of `chains` chains of `length` nodes, each waited for. Microseconds.
class Replay {
 public:
  Replay(weir::Device device, std::size_t chains, std::size_t length, std::size_t count)
      : stream_(device), count_(count) {
    weir::GraphBuilder builder(device);
    for (std::size_t c = 0; c < chains; ++c) {
      weir::Node last = builder.launch(1, counting_kernel);
      for (std::size_t i = 1; i < length; ++i) {
        const weir::Node next = builder.launch(1, counting_kernel);
        builder.depends(next, last);
        last = next;
      }
    }
    graph_ = builder.build();
  }
  double operator()() {
    return seconds([&] {
             for (std::size_t i = 0; i < count_; ++i) {
               graph_.launch(stream_);
               stream_.synchronize();
             }
           }) *
           1e6 / static_cast<double>(count_);
  }

 private:
  weir::Stream stream_;
  weir::Graph graph_;
  std::size_t count_;
};

void replay(Context& context, std::size_t chains, std::size_t length, Row row) {
  const std::size_t count = context.options.cut(100'000);
  Replay ours(context.device, chains, length, count);
  const Pair pair = by_turns(
      context.options,
      [&] { return counted(chains * length * count, [&] { return raw::calls(chains * length, count); }); },
      [&] { return counted(chains * length * count, ours); });
  row.unit = "us";
  row.value = pair.ours;
  row.raw = pair.raw;
  context.report.add(row);
}

void random_dag(Context& context) {
  constexpr std::uint32_t window = 256;  ///< nodes depend on nodes at most so far back
  const std::size_t count = context.options.cut(10'000);
  const std::size_t steps = busy_steps(10);
  std::mt19937 random(20240607);
  weir::GraphBuilder builder(context.device);
  std::vector<weir::Node> nodes;
  for (std::uint32_t i = 0; i < count; ++i) {
    nodes.push_back(builder.launch(1, [steps](std::size_t) {
      busy(steps);
      tally();
    }));
    for (std::uint32_t d = i < window ? 0 : random() % 3; d > 0; --d) {
      builder.depends(nodes[i], nodes[i - 1 - random() % (window - 1)]);
    }
  }
  const weir::Graph graph = builder.build();
  const weir::Stream stream(context.device);
  const auto ours = [&] {
    return seconds([&] {
      graph.launch(stream);
      stream.synchronize();
    });
  };
  const auto rate = [&](double time) { return static_cast<double>(count) / time * 1e-6; };
  const auto both = [&](auto&& time) { return rate(counted(count, time)); };
  const Pair pair = by_turns(
      context.options, [&] { return both([&] { return raw::busy_tasks(count, steps); }); }, [&] { return both(ours); });
  context.report.add({"graph.random",
                      context.counts(10'000) + " nodes of 10 us, a random graph",
                      "M/s",
                      pair.ours,
                      pair.raw,
                      {ratio_at_least(context.on_cores({{1, 0.95}, {4, 0.93}}))}});
}

void update(Context& context) {
  const std::size_t count = context.options.cut(20'000);
  weir::GraphBuilder builder(context.device);
  const auto seen = weir::zeros<int>(weir::pinned, 1);
  const weir::Stream stream(context.device);
  const auto node = builder.launch(
      1,
      [at = seen.data()](std::size_t, int value) {
        if constexpr (!sabotaged) *at = value;
      },
      -1);
  weir::Graph graph = builder.build();
  int value = 0;
  const auto ours = [&] {
    const double time = seconds([&] {
      for (std::size_t i = 0; i < count; ++i) graph.update(node, ++value);
    });
    graph.launch(stream);
    stream.synchronize();
    expect(seen[0] == value, "a replay did not see the last update");
    return time * 1e6 / static_cast<double>(count);
  };
  context.report.add(
      {"graph.update", "new arguments for a launch's node", "us", repeat(context.options, ours), {}, {}});
}

}  // namespace

void graphs(Context& context) {
  replay(
      context, 1, 100,
      {.name = "graph.chain", .work = "replay a chain of 100 nodes that count, wait", .reach = {at_most(0.6, "us")}});
  replay(context, 10, 10,
         {.name = "graph.chains",
          .work = "replay 10 chains of 10 nodes that count, wait",
          .reach = {at_most(context.on_cores({{1, 2.5}, {4, 1.5}}), "us")}});
  random_dag(context);
  update(context);
}

}  // namespace bench
