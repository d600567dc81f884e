// Random programs over several streams, captured as graphs or built with inferred dependencies, and replayed: each replay
// must leave what the same commands leave one after the other.
#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;

constexpr std::size_t elements = 96;

struct Mix {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const std::uint32_t> x, weir::View<std::uint32_t> y,
                              std::uint32_t salt) const {
    y[i] = y[i] * 31 + x[i] + salt;
  }
};

struct Command {
  enum class Kind { mix, copy, fill, child } kind;
  std::size_t stream;
  std::size_t from;
  std::size_t to;
  std::uint32_t value;
  bool touches(const Command& other) const { return to == other.to || to == other.from || from == other.to; }
};
using Arrays = std::vector<std::vector<std::uint32_t>>;

std::vector<Command> random_commands(std::mt19937& random, std::size_t streams, std::size_t arrays) {
  std::vector<Command> all(3 + random() % 40);
  for (Command& c : all) {
    c = {static_cast<Command::Kind>(random() % 4), random() % streams, random() % arrays, random() % arrays,
         static_cast<std::uint32_t>(random())};
    if (c.from == c.to) c.from = (c.from + 1) % arrays;
  }
  return all;
}

void interpret(const std::vector<Command>& commands, Arrays& arrays) {
  for (const Command& c : commands) {
    auto& to = arrays[c.to];
    for (std::size_t i = 0; i < elements; ++i) {
      switch (c.kind) {
        case Command::Kind::mix:
        case Command::Kind::child: to[i] = to[i] * 31 + arrays[c.from][i] + c.value; break;
        case Command::Kind::copy: to[i] = arrays[c.from][i]; break;
        case Command::Kind::fill: to[i] = c.value; break;
      }
    }
  }
}

class GraphsRandom : public AnyDevice {
 protected:
  std::vector<weir::Array<std::uint32_t>> make_arrays(const Arrays& values) {
    std::vector<weir::Array<std::uint32_t>> arrays;
    for (const auto& one : values) arrays.push_back(weir::from(device(), one));
    device().synchronize();
    return arrays;
  }
  Arrays random_values(std::mt19937& random, std::size_t count) {
    Arrays values(count, std::vector<std::uint32_t>(elements));
    for (auto& one : values) {
      for (auto& value : one) value = random();
    }
    return values;
  }
  void expect_replays(const weir::Graph& graph, const std::vector<Command>& commands, Arrays values,
                      const std::vector<weir::Array<std::uint32_t>>& arrays, std::uint32_t seed) {
    const std::vector<weir::Stream> launchers = [&] {
      std::vector<weir::Stream> two;
      two.emplace_back(device());
      two.emplace_back(device());
      return two;
    }();
    constexpr int replays = 4;
    for (int i = 0; i < replays; ++i) graph.launch(launchers[i % 2]);  // they follow each other on any stream
    for (const weir::Stream& launcher : launchers) launcher.synchronize();
    for (int i = 0; i < replays; ++i) interpret(commands, values);
    for (std::size_t a = 0; a < arrays.size(); ++a) ASSERT_EQ(arrays[a].to_host(), values[a]) << "seed " << seed;
  }
};

TEST_P(GraphsRandom, Captured) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const std::size_t width = 1 + random() % 5;
    const std::size_t count = 2 + random() % 5;
    const Arrays values = random_values(random, count);
    const auto arrays = make_arrays(values);
    const auto commands = random_commands(random, width, count);
    std::vector<weir::Stream> streams;
    for (std::size_t s = 0; s < width; ++s) streams.emplace_back(device());
    std::vector<weir::Graph> children(commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const Command& c = commands[i];
      if (c.kind != Command::Kind::child) continue;
      children[i] = weir::capture(streams[0], [&] {
        weir::launch(streams[0], elements, Mix{}, weir::in(arrays[c.from]), weir::inout(arrays[c.to]), c.value);
      });
    }
    const weir::Graph graph = weir::capture(streams[0], [&] {
      for (std::size_t s = 1; s < width; ++s) streams[s].wait(streams[0]);
      std::vector<weir::Event> done;
      for (std::size_t i = 0; i < commands.size(); ++i) {
        const Command& c = commands[i];
        const weir::StreamRef s = streams[c.stream];
        for (std::size_t before = 0; before < i; ++before) {
          if (commands[before].stream != c.stream && c.touches(commands[before])) s.wait(done[before]);
        }
        switch (c.kind) {
          case Command::Kind::mix:
            weir::launch(s, elements, Mix{}, weir::in(arrays[c.from]), weir::inout(arrays[c.to]), c.value);
            break;
          case Command::Kind::copy: weir::copy(s, arrays[c.to], arrays[c.from]); break;
          case Command::Kind::fill: weir::fill(s, arrays[c.to], c.value); break;
          case Command::Kind::child: children[i].launch(s); break;
        }
        done.push_back(s.record());
      }
      for (std::size_t s = 1; s < width; ++s) streams[0].wait(streams[s]);
    });
    expect_replays(graph, commands, values, arrays, seed);
  }
}

TEST_P(GraphsRandom, Inferred) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    std::mt19937 random(seed);
    const std::size_t count = 2 + random() % 5;
    const Arrays values = random_values(random, count);
    const auto arrays = make_arrays(values);
    auto commands = random_commands(random, 1, count);
    weir::GraphBuilder builder(device(), weir::Dependencies::inferred);
    std::vector<weir::Node> mixes;
    std::vector<std::size_t> mixed;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      const Command& c = commands[i];
      switch (c.kind) {
        case Command::Kind::mix:
        case Command::Kind::child:
          mixes.push_back(
              builder.launch(elements, Mix{}, weir::in(arrays[c.from]), weir::inout(arrays[c.to]), c.value));
          mixed.push_back(i);
          break;
        case Command::Kind::copy: builder.copy(arrays[c.to], arrays[c.from]); break;
        case Command::Kind::fill: builder.fill(arrays[c.to], c.value); break;
      }
    }
    weir::Graph graph = builder.build();
    if (!mixes.empty()) {  // with a change in the same shape
      const std::size_t which = random() % mixes.size();
      Command& c = commands[mixed[which]];
      c.value = random();
      graph.update(mixes[which], Mix{}, weir::in(arrays[c.from]), weir::inout(arrays[c.to]), c.value);
    }
    expect_replays(graph, commands, values, arrays, seed);
  }
}

ON_EVERY_DEVICE(GraphsRandom);

}  // namespace
