// Collectives that wait for each other: the engine finds the circle with the call that closes it, as a plain reference does.
#include <cstdint>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/scenario.hpp>

#include "check/engine.hpp"

namespace {

using weir::check::Call;
using weir::check::CollectiveCall;
using weir::check::Engine;
using weir::recorded::Op;
using weir::recorded::StreamKind;

/// A program of ranks with streams of their own, and what the engine says of it.
struct Program {
  explicit Program(std::size_t streams) : engine(options()) {
    for (std::size_t i = 0; i < streams; ++i) {
      weir::check::StreamFact fact;
      fact.name = "s" + std::to_string(i);
      fact.kind = StreamKind::non_blocking;
      engine.made_stream(call, engine.add_stream(fact));
    }
  }
  weir::check::EngineOptions options() {
    weir::check::EngineOptions made;
    made.found = [this](weir::Finding finding) { found.push_back(std::move(finding)); };
    return made;
  }
  void part(std::uint32_t stream, const CollectiveCall& made, std::vector<weir::recorded::Use> uses = {}) {
    ++call.line;
    engine.begin_collective(call, stream, made);
    engine.work(call, stream, Op::external, made.name, uses);
    engine.collective(call, stream, made);
    ++call.command;
  }
  void work(std::uint32_t stream, std::vector<weir::recorded::Use> uses) {
    ++call.line;
    engine.work(call, stream, Op::launch, "k", uses);
    ++call.command;
  }
  weir::recorded::Use buffer() {
    weir::check::BufferFact fact;
    fact.bytes = 8;
    return {.buffer = engine.add_buffer(fact), .access = weir::recorded::Access::inout, .bytes = 8};
  }
  /// A graph of one collective, of which a launch is a call of all ranks.
  void build(std::uint32_t graph, std::uint64_t communicator, std::vector<weir::recorded::Use> uses = {}) {
    weir::recorded::Node node;
    node.op = Op::launch;
    node.name = 0;
    node.uses = std::move(uses);
    node.communicator = communicator;
    node.communicator_name = 0;
    engine.build(call, graph, {&node, 1}, [](weir::recorded::Name) { return "grads"; });
  }
  void launch(std::uint32_t stream, std::uint32_t graph) {
    ++call.line;
    engine.launch_graph(call, stream, graph);
    ++call.command;
  }
  void all_reduce(std::uint32_t stream, std::uint64_t communicator, int rank, int size, std::uint64_t number = 1) {
    part(stream,
         {.communicator = communicator, .number = number, .rank = rank, .size = size, .name = "all_reduce", .of = "c"});
  }
  void pair(std::uint32_t stream, int rank, int from, int to, std::uint64_t unit = 0) {
    part(stream, {.communicator = 1,
                  .number = 1,
                  .unit = unit,
                  .rank = rank,
                  .size = 2,
                  .from = from,
                  .to = to,
                  .name = rank == from ? "send" : "receive",
                  .of = "c"});
  }
  void wait(std::uint32_t stream, std::uint32_t other) { engine.wait_stream(call, stream, other); }

  std::vector<weir::Finding> found;
  Engine engine;
  Call call{0, 0, "a.cpp", 0};
};

TEST(Circles, of_two_communicators_in_opposite_orders_are_found_with_both_lines) {
  Program program(2);
  program.all_reduce(0, 1, 0, 2);
  program.all_reduce(0, 2, 0, 2);
  program.all_reduce(1, 2, 1, 2);
  EXPECT_TRUE(program.found.empty());
  program.all_reduce(1, 1, 1, 2);
  ASSERT_EQ(program.found.size(), 1u);
  const weir::Finding& found = program.found[0];
  EXPECT_EQ(found.kind, weir::FindingKind::deadlock);
  EXPECT_EQ(found.severity, weir::Severity::error);
  EXPECT_EQ(found.second->line, 4u);
  EXPECT_EQ(found.first->line, 3u);
  EXPECT_NE(found.why.find("rank 1 has all_reduce of 'c' at a.cpp:4 behind all_reduce of 'c' at a.cpp:3"),
            std::string::npos)
      << found.why;
  EXPECT_NE(found.why.find("rank 0 has all_reduce of 'c' at a.cpp:2 behind all_reduce of 'c' at a.cpp:1"),
            std::string::npos)
      << found.why;
}

TEST(Circles, that_waits_for_streams_close_are_found) {
  Program program(4);
  program.all_reduce(0, 1, 0, 2);
  program.wait(2, 0);
  program.all_reduce(2, 2, 0, 2);
  program.all_reduce(1, 2, 1, 2);
  program.all_reduce(3, 1, 1, 2);  // beside the other one: no circle
  EXPECT_TRUE(program.found.empty());
  Program closed(4);
  closed.all_reduce(0, 1, 0, 2);
  closed.wait(2, 0);
  closed.all_reduce(2, 2, 0, 2);
  closed.all_reduce(1, 2, 1, 2);
  closed.wait(3, 1);
  closed.all_reduce(3, 1, 1, 2);
  EXPECT_EQ(closed.found.size(), 1u);
}

TEST(Circles, of_one_collective_are_found_where_a_rank_comes_behind_another_ones_part) {
  Program program(2);
  program.all_reduce(0, 1, 0, 2);
  program.wait(1, 0);
  program.all_reduce(1, 1, 1, 2);
  ASSERT_EQ(program.found.size(), 1u);
  EXPECT_EQ(program.found[0].first->stream, "s0");
  EXPECT_EQ(program.found[0].second->stream, "s1");
}

TEST(Circles, of_sends_are_none_in_a_group) {
  for (const std::uint64_t unit : {0, 1}) {
    Program program(2);
    program.pair(0, 0, 0, 1, unit);
    program.pair(0, 0, 1, 0, unit);
    program.pair(1, 1, 1, 0, unit == 0 ? 0 : 2);
    program.pair(1, 1, 0, 1, unit == 0 ? 0 : 2);
    EXPECT_EQ(program.found.size(), unit == 0 ? 1u : 0u);
  }
}

TEST(Circles, that_are_tried_are_told_and_nothing_is_kept) {
  Program program(3);
  program.all_reduce(0, 1, 0, 2);
  program.all_reduce(0, 2, 0, 2);
  program.all_reduce(1, 2, 1, 2);
  for (int i = 0; i < 2; ++i) {
    program.engine.try_collective(
        program.call, 1, {.communicator = 1, .number = 1, .rank = 1, .size = 2, .name = "all_reduce", .of = "c"});
  }
  EXPECT_EQ(program.found.size(), 2u);
  program.all_reduce(2, 1, 1, 2);
  EXPECT_EQ(program.found.size(), 2u);
}

//  s0 |A|graph: B|   s2 |B|        s1 |B|A|      A waits for B of rank 1, that comes behind the graph, which waits for A
TEST(Circles, that_launches_of_graphs_close_are_found_with_their_lines) {
  for (const bool before : {false, true}) {
    Program program(3);
    program.build(7, 2);
    if (before) program.launch(0, 7);
    program.all_reduce(0, 1, 0, 2);
    if (!before) program.launch(0, 7);
    program.all_reduce(1, 2, 1, 2);
    program.all_reduce(2, 2, 0, 2);
    EXPECT_TRUE(program.found.empty());
    program.all_reduce(1, 1, 1, 2);
    if (before) {
      EXPECT_TRUE(program.found.empty());
      continue;
    }
    ASSERT_EQ(program.found.size(), 1u);
    const weir::Finding& found = program.found[0];
    EXPECT_EQ(found.kind, weir::FindingKind::deadlock);
    EXPECT_EQ(found.second->line, 5u);
    EXPECT_EQ(found.first->line, 3u);
    const auto has = [&](const char* text) { return found.why.find(text) != std::string::npos; };
    EXPECT_TRUE(has("rank 1 has all_reduce of 'c' at a.cpp:5 behind all_reduce of 'c' at a.cpp:3;")) << found.why;
    EXPECT_TRUE(has("behind the launch of a graph with collectives of 'grads' at a.cpp:2;")) << found.why;
    EXPECT_TRUE(
        has("the launch of a graph with collectives of 'grads' at a.cpp:2 comes behind all_reduce of 'c' at "
            "a.cpp:1"))
        << found.why;
  }
}

//  s0 |B|A|  s1 |A|graph: B|     the launch comes behind B, which is whole by then, on no stream of its own
TEST(Circles, that_a_launch_closes_by_calls_before_it_are_found) {
  Program program(4);
  program.build(7, 2);
  program.all_reduce(0, 1, 0, 2);  // A of rank 0
  program.all_reduce(0, 2, 0, 2);  // B behind it
  program.all_reduce(1, 2, 1, 2);  // B is whole
  program.launch(2, 7);            // behind B
  program.wait(3, 2);
  EXPECT_TRUE(program.found.empty());
  program.all_reduce(3, 1, 1, 2);  // A of rank 1, behind the launch
  ASSERT_EQ(program.found.size(), 1u);
  EXPECT_NE(program.found[0].why.find("rank 1 has all_reduce of 'c' at a.cpp:5 behind the launch of a graph"),
            std::string::npos)
      << program.found[0].why;
}

TEST(Circles, communicators_order_what_their_calls_and_launches_use_whatever_the_streams) {
  Program program(4);
  const weir::recorded::Use x = program.buffer(), y = program.buffer();
  const auto call = [&](std::uint32_t stream, int rank, std::uint64_t number) {
    program.part(stream,
                 {.communicator = 1, .number = number, .rank = rank, .size = 2, .name = "all_reduce", .of = "c"},
                 {rank == 0 ? x : y});
  };
  // Rank 0 is ahead by two, on two streams; so is rank 1 behind it.
  call(0, 0, 1);
  call(2, 0, 2);
  call(1, 1, 1);
  call(3, 1, 2);
  program.build(7, 1, {x, y});
  program.launch(0, 7);
  call(2, 0, 3);
  call(3, 1, 3);
  program.work(2, {x});
  program.work(3, {y});
  EXPECT_TRUE(program.found.empty()) << program.found.front().why;
  program.work(0, {x});
  EXPECT_EQ(program.found.size(), 1u);  // not behind the third
}

TEST(Circles, are_not_looked_for_where_ranks_are_in_other_processes) {
  Program program(3);
  const weir::recorded::Use x = program.buffer();
  const auto call = [&](std::uint32_t stream, std::uint64_t communicator, std::uint64_t number) {
    program.part(stream, {.communicator = communicator, .number = number, .name = "all_reduce", .of = "c"}, {x});
  };
  call(0, 1, 1);
  call(1, 1, 2);
  program.wait(0, 1);
  call(0, 1, 3);
  EXPECT_TRUE(program.found.empty()) << program.found.front().why;
  call(2, 2, 1);  // another communicator's, beside the last one
  EXPECT_EQ(program.found.size(), 1u);
  EXPECT_NE(program.found[0].kind, weir::FindingKind::deadlock);
}

/// Two communicators of two ranks, and a graph with a collective of the second one. `first`: what is said of collectives comes
/// before the program.
std::string scenario(bool circle, bool first) {
  std::string program = R"("program": [{"op": "build_graph", "graph": "g", "nodes": [{"name": "n0", "op": "launch"}]})";
  std::string said = R"({"command": 0, "node": "n0", "communicator": 2, "name": "grads"})";
  int place = 0;
  const auto launch = [&] {
    ++place;
    program += R"(, {"op": "launch_graph", "stream": "s0", "graph": "g", "file": "train.cpp", "line": 11})";
  };
  const auto part = [&](const std::string& stream, int communicator, const std::string& name, int rank, int line) {
    program += R"(, {"op": "external", "stream": ")" + stream +
               R"(", "name": "barrier", "file": "train.cpp", "line": )" + std::to_string(line) + "}";
    said += R"(, {"command": )" + std::to_string(++place) + R"(, "communicator": )" + std::to_string(communicator) +
            R"(, "name": ")" + name + R"(", "number": 1, "rank": )" + std::to_string(rank) +
            R"(, "ranks": 2, "x-more": 1})";
  };
  if (!circle) launch();
  part("s0", 1, "losses", 0, 10);
  if (circle) launch();
  part("s1", 2, "grads", 1, 12);
  part("t0", 2, "grads", 0, 13);
  part("s1", 1, "losses", 1, 14);
  program += R"(, {"op": "wait", "stream": "s1", "for": "s0"}])";
  said += R"(, {"command": )" + std::to_string(++place) + "}";
  said = "\"x-collectives\": [" + said + "]";
  return R"({"format": "weir.scenario", "version": 1, "buffers": [],
             "streams": [{"name": "s0", "kind": "non_blocking"}, {"name": "s1", "kind": "non_blocking"},
                         {"name": "t0", "kind": "non_blocking"}], )" +
         (first ? said + ", " + program : program + ", " + said) + "}";
}

TEST(Circles, of_scenario_files_are_found_with_their_lines) {
  for (const bool circle : {true, false}) {
    // Read, and read again from what is written.
    const weir::Recording first = weir::parse_recording(scenario(circle, circle));
    const weir::Recording second = weir::parse_recording(to_json(first));
    EXPECT_EQ(to_json(first), to_json(second));
    EXPECT_EQ(to_json(first), to_json(weir::parse_recording(scenario(circle, !circle))));
    for (const weir::Recording* recording : {&first, &second}) {
      weir::ScenarioChecker checker(*recording);
      checker.all();
      const weir::CheckReport report = checker.report();
      EXPECT_EQ(report.findings.size(), circle ? 1u : 0u) << to_text(report);
      if (!circle || report.findings.empty()) continue;
      const weir::Finding& found = report.findings[0];
      EXPECT_EQ(found.kind, weir::FindingKind::deadlock);
      EXPECT_EQ(found.second->line, 14u);
      EXPECT_EQ(found.first->line, 12u);
      EXPECT_NE(found.why.find("the launch of a graph with collectives of 'grads' at train.cpp:11 comes behind barrier "
                               "of 'losses' at train.cpp:10"),
                std::string::npos)
          << found.why;
    }
  }
}

/// The calls so far: which come before which by streams and waits, and whether collectives wait for each other in a circle.
class Reference {
 public:
  explicit Reference(std::size_t streams) : last_(streams) {}
  void wait(std::size_t stream, std::size_t other) { last_[stream].insert(last_[other].begin(), last_[other].end()); }
  /// Each communicator has one collective, which is its number.
  void part(std::size_t stream, std::size_t collective) {
    for (const std::size_t before : last_[stream]) waits_.insert({collective, before});
    last_[stream].insert(collective);
  }
  bool circle() const {
    std::set<std::pair<std::size_t, std::size_t>> all = waits_;
    for (std::size_t before = 0; before != all.size();) {
      before = all.size();
      for (const auto& [a, b] : std::set(all)) {
        for (const auto& [c, d] : waits_) {
          if (b == c) all.insert({a, d});
        }
      }
    }
    for (const auto& [a, b] : all) {
      if (a == b) return true;
    }
    return false;
  }

 private:
  std::vector<std::set<std::size_t>> last_;  ///< whose parts are before the stream's next command
  std::set<std::pair<std::size_t, std::size_t>> waits_;
};

TEST(Circles, of_random_programs_are_found_by_the_call_that_closes_them_and_no_other) {
  std::size_t with_circle = 0, without = 0;
  for (unsigned seed = 1; seed <= 3000; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::size_t n) { return random() % n; };
    const std::size_t ranks = 2 + below(2), per_rank = 1 + below(3), collectives = 2 + below(4);
    Program program(ranks * per_rank);
    Reference reference(ranks * per_rank);
    // The ranks that have not called a collective yet, which a thread serves in any order.
    std::vector<std::pair<std::size_t, std::size_t>> calls;
    for (std::size_t c = 0; c < collectives; ++c)
      for (std::size_t r = 0; r < ranks; ++r) calls.push_back({c, r});
    const bool in_order = below(3) == 0;
    bool over = false;
    while (!calls.empty() && !over) {
      const std::size_t at = in_order ? 0 : below(calls.size());
      const auto [collective, rank] = calls[at];
      calls.erase(calls.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t stream = rank * per_rank + below(per_rank);
      if (below(2) == 0) {
        const std::size_t other = below(ranks * per_rank);
        if (other != stream) {
          program.wait(static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(other));
          reference.wait(stream, other);
        }
      }
      program.all_reduce(static_cast<std::uint32_t>(stream), collective + 1, static_cast<int>(rank),
                         static_cast<int>(ranks));
      reference.part(stream, collective);
      over = reference.circle();
      ASSERT_EQ(program.found.size(), over ? 1u : 0u) << "seed " << seed;
    }
    ++(over ? with_circle : without);
  }
  EXPECT_GT(with_circle, 500u);
  EXPECT_GT(without, 500u);
}

}  // namespace
