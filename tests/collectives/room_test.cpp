// Collectives of a rank whose stream has no room for another command, with and without observers.
#include <atomic>
#include <cstddef>
#include <thread>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/observer.hpp>

#include "collectives/ranks.hpp"
#include "support/between_looks.hpp"

namespace weir_test {
namespace {

using weir::inout;

/// A driver holds whoever enqueues a thousand commands behind a wait (R3): the other ranks' threads must not wait with it.
void call_with_a_rank_far_ahead() {
  const Ranks ranks(2);
  constexpr int count = 3000;
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return static_cast<int>(r); });
  ranks.synchronize();
  if (!on_cpu()) {  // else calls behind each other would take one place in their stream
    for (const weir::Stream& stream : ranks.streams) EXPECT_NE(stream.native(), nullptr);
  }
  const auto call_all = [&](std::size_t r, std::atomic<int>& called) {
    for (int i = 0; i < count; ++i) {
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Maximum{});
      ++called;
    }
  };
  std::atomic<int> called{0}, called_then{0};
  std::thread ahead([&] { call_all(0, called); });
  // Until it is through, or waits, for which no driver has room for fewer. A driver makes nothing for others then (R214): this
  // thread asks for nothing.
  for (int quiet = 0, before = 0; called < 400 || quiet < 20000; weir_test::between_looks(quiet)) {
    const int now = called;
    quiet = now == before ? quiet + 1 : 0;
    before = now;
  }
  call_all(1, called_then);
  ahead.join();
  ranks.synchronize();
  for (const auto& each : x) EXPECT_EQ(each.to_host(), ints(8, 1));
}

TEST(CollectivesOrder, a_rank_that_is_far_ahead_keeps_no_other_from_calling) {
  WEIR_NEEDS_RANKS(2u);
  call_with_a_rank_far_ahead();
}

// Each call tells the other rank's stream, too: of the order that the collective makes.
TEST(CollectivesOrder, a_rank_that_is_far_ahead_keeps_no_other_from_calling_while_observers_are_told) {
  WEIR_NEEDS_RANKS(2u);
  struct Counts final : weir::Observer {
    void submitted(const weir::Command& command) override {
      if (std::holds_alternative<weir::Collective>(command.op)) ++calls;
      if (std::holds_alternative<weir::Wait>(command.op)) ++orders;
    }
    std::atomic<int> calls{0}, orders{0};
  } counts;
  weir::attach(counts, weir::Watch::commands);
  call_with_a_rank_far_ahead();
  weir::detach(counts);
  EXPECT_EQ(counts.calls, 6000);
  EXPECT_GE(counts.orders, 6000);
}

}  // namespace
}  // namespace weir_test
