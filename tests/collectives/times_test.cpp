// When collectives ran, as observers are told, and that who is told changes nothing of how they run.
#include <chrono>
#include <cstddef>
#include <map>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/observer.hpp>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::inout;
using Clock = std::chrono::steady_clock;

/// The calls of collectives, each rank's in their order, and when each ran.
class Spans final : public weir::Observer {
 public:
  Spans() { weir::attach(*this, weir::Watch::commands | weir::Watch::times); }
  ~Spans() override { end(); }
  Spans(const Spans&) = delete;
  Spans& operator=(const Spans&) = delete;

  void submitted(const weir::Command& command) override {
    if (const auto* call = std::get_if<weir::Collective>(&command.op)) {
      const std::lock_guard guard(mutex_);
      calls_[call->rank].push_back(command.id);
    }
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span span) override {
    const std::lock_guard guard(mutex_);
    spans_[id] = span;
  }

  /// Of what is over all is told then.
  void end() {
    if (std::exchange(attached_, false)) weir::detach(*this);
  }
  std::vector<weir::Span> of_rank(int rank) {
    const std::lock_guard guard(mutex_);
    std::vector<weir::Span> spans;
    for (const weir::CommandId id : calls_[rank]) {
      const auto found = spans_.find(id);
      EXPECT_NE(found, spans_.end()) << "call " << spans.size() << " of rank " << rank << " has no time";
      if (found != spans_.end()) spans.push_back(found->second);
    }
    return spans;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::vector<weir::CommandId>> calls_;
  std::map<weir::CommandId, weir::Span> spans_;
  bool attached_ = true;
};

/// Rank 1 calls late. Whether rank 0 is told to have begun before that: a worker may come to its part later yet.
//  s0: |sum|                s1: (another stream works, and only then) |sum|
bool begins_before_the_last_rank_calls(const Ranks& ranks) {
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  ranks.synchronize();
  Spans spans;
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  const auto waits = [&](int rounds) {
    return stays(
        device_of(1), [&] { return !ranks.streams[0].done(); }, rounds);
  };
  EXPECT_TRUE(waits(4));
  const Clock::time_point late = Clock::now();
  EXPECT_TRUE(waits(16));
  weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1]));
  ranks.synchronize();
  spans.end();
  const std::vector<weir::Span> first = spans.of_rank(0), second = spans.of_rank(1);
  EXPECT_EQ(x[0].to_host(), std::vector<int>(8, 3));
  if (first.size() != 1 || second.size() != 1) return false;
  EXPECT_GE(second[0].begin + second[0].error, late);
  for (const weir::Span& span : {first[0], second[0]}) {
    EXPECT_GE(span.end + span.error, late);
    EXPECT_GE(span.end, span.begin);
  }
  return first[0].begin <= late;  // whatever the error: it may be larger than what is between
}

TEST(CollectivesTimes, begin_when_the_stream_has_come_and_end_when_all_ranks_have) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const int most = on_cpu() ? 100 : 4;  // a GPU's stream has it at once, and few other things get it there as early
  bool begins_before = false;
  for (int tries = 0; tries < most && !begins_before && !testing::Test::HasFailure(); ++tries)
    begins_before = begins_before_the_last_rank_calls(ranks);
  EXPECT_TRUE(begins_before);
}

// A GPU's stream has room for about a thousand commands (R3), and the one thread has yet to make the other rank's calls.
TEST(CollectivesTimes, are_taken_without_room_in_streams_that_wait_for_other_ranks) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const std::size_t rounds = 3000;
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t) { return r; });
  ranks.synchronize();
  Spans spans;
  for (std::size_t r = 0; r < 2; ++r) {
    for (std::size_t i = 0; i < rounds; ++i)
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Maximum{});
  }
  ranks.synchronize();
  spans.end();
  for (int r = 0; r < 2; ++r) {
    const std::vector<weir::Span> all = spans.of_rank(r);
    ASSERT_EQ(all.size(), rounds);
    for (std::size_t i = 0; i < rounds; ++i) {
      EXPECT_LE(all[i].begin, all[i].end) << i;
      if (i > 0 && !on_cpu()) {
        EXPECT_GE(all[i].begin, all[i - 1].end) << i;
      }
    }
  }
  EXPECT_EQ(x[0].to_host(), std::vector<int>(4, 1));
}

TEST(CollectivesTimes, of_calls_that_fail_are_told_too) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  ranks.synchronize();
  Spans spans;
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  ranks.comms[0].abort();
  EXPECT_THROW(ranks.streams[0].synchronize(), weir::Error);
  spans.end();
  const std::vector<weir::Span> all = spans.of_rank(0);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_LE(all[0].begin, all[0].end);
}

}  // namespace
}  // namespace weir_test
