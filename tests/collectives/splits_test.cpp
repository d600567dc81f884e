// Splits that can never be decided: who waits for one hears so at once.
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::Errc;

/// Nobody is to wait as long as this.
constexpr std::chrono::seconds timeout{60};

struct CollectivesSplits : testing::Test {
  void SetUp() override { WEIR_NEEDS_RANKS(2u); }
  static std::vector<weir::Communicator> two() {
    return weir::communicators(devices_of(2), {.name = "grads", .timeout = timeout});
  }
};

TEST_F(CollectivesSplits, after_a_rank_has_left_are_refused) {
  auto comms = two();
  comms.pop_back();
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { static_cast<void>(comms[0].split(0, 0)); },
                         {"weir::Communicator::split", "rank 1 was destroyed"}));
}

TEST_F(CollectivesSplits, end_when_a_rank_leaves_before_it_has_called) {
  auto comms = two();
  const weir::Communicator half = comms[0].split(0, 0);
  comms.pop_back();
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { static_cast<void>(half.size()); }, {"rank 1 was destroyed"}));
}

// Whether it waits already or has yet to.
TEST_F(CollectivesSplits, end_for_who_waits_when_the_communicator_fails) {
  for (const bool leaves : {true, false}) {
    auto comms = two();
    const weir::Communicator half = comms[0].split(0, 0);
    testing::AssertionResult failed = testing::AssertionFailure();
    std::thread waits([&] {
      failed = fails_with(Errc::rank_failed, [&] { static_cast<void>(half.size()); },
                          {leaves ? "rank 1 was destroyed" : "rank 1 aborted"});
    });
    if (leaves) {
      comms.pop_back();
    } else {
      comms[1].abort();
    }
    waits.join();
    EXPECT_TRUE(failed);
  }
}

TEST_F(CollectivesSplits, that_are_decided_outlive_what_was_split) {
  std::optional<std::vector<weir::Communicator>> comms = two();
  std::vector<weir::Communicator> all;
  for (const weir::Communicator& one : *comms) all.push_back(one.split(0, 0));
  comms->front().abort();
  comms.reset();
  EXPECT_EQ(all[1].size(), 2);
  const Ranks streams(2);
  for (std::size_t r = 0; r < 2; ++r) weir::barrier(streams.streams[r], all[r]);
  streams.synchronize();
}

}  // namespace
}  // namespace weir_test
