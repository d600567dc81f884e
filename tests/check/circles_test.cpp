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
  void part(std::uint32_t stream, const CollectiveCall& made) {
    ++call.line;
    engine.work(call, stream, Op::external, made.name, {});
    engine.collective(call, stream, made);
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
