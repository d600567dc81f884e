// Communicators of GPUs that fail while the driver has calls of theirs: whose kernels wait for others.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <thread>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::Errc;
using weir::inout;

//  a thread: communicators made, used and gone, and every fourth fails while the driver has a call of it; beside it another one's calls
TEST(CollectivesGpus, communicators_come_and_go_while_others_are_at_work) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  std::atomic<bool> over{false};
  std::thread thread([&] {
    for (int round = 0; round < 16; ++round) {
      const Ranks theirs(2);
      const std::size_t count = round % 2 == 0 ? 8 : many;
      const auto y = theirs.arrays<int>(count, [](std::size_t r, std::size_t) { return r + 1; });
      theirs.synchronize();
      Gate gate;
      const bool fails = round % 8 >= 6;
      if (fails) gate.hold(theirs.streams[1]);
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(theirs.streams[r], theirs.comms[r], inout(y[r]));
      if (!fails) {
        EXPECT_EQ(y[0].to_host(), ints(count, 3));
        continue;
      }
      theirs.comms[0].abort();
      EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { theirs.streams[0].synchronize(); }));
      gate.open();
      EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { theirs.streams[1].synchronize(); }));
    }
    over = true;
  });
  do {
    for (std::size_t r = 0; r < 2; ++r)
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Maximum{});
    ranks.streams[0].synchronize();
  } while (!over);
  thread.join();
  EXPECT_EQ(x[1].to_host(), ints(8, 1));
}

//  s1: [gate] |A|, which fails      busy, on the same GPU: [another gate]      then others' calls, and a new communicator
TEST(CollectivesGpus, one_that_failed_holds_up_nobody_while_its_gpus_are_busy) {
  WEIR_NEEDS_GPUS
  for (const std::size_t count : {std::size_t{8}, many}) {
    SCOPED_TRACE(count);
    const Ranks failing(2), others(2);
    const auto x = failing.arrays<int>(count, [](std::size_t, std::size_t) { return 1; });
    const auto rank_of = [](std::size_t r, std::size_t) { return r; };
    const auto y = others.arrays<int>(many, rank_of);  // NCCL reduces them, with the lock that it frees with
    const auto z = others.arrays<int>(8, rank_of);
    const weir::Stream busy(device_of(1), {.blocking = false});
    failing.synchronize();
    others.synchronize();
    Gate gate, other;
    gate.hold(failing.streams[1]);
    other.hold(busy);
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(failing.streams[r], failing.comms[r], inout(x[r]));
    failing.comms[0].abort();
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { failing.streams[0].synchronize(); }));
    gate.open();
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { failing.streams[1].synchronize(); }));
    EXPECT_TRUE(returns_while_held(other, [&] {
      for (int round = 0; round < 200; ++round) {
        for (const auto& arrays : {std::cref(y), std::cref(z)}) {
          for (std::size_t r = 0; r < 2; ++r)
            weir::all_reduce(others.streams[r], others.comms[r], inout(arrays.get()[r]), weir::Maximum{});
        }
        others.synchronize();
      }
    }));
    EXPECT_EQ(y[0].to_host(), ints(many, 1));
    EXPECT_EQ(z[0].to_host(), ints(8, 1));
    other.open();
    const auto again = weir::communicators({device_of(1), device_of(0)});  // frees what failed
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(others.streams[r], again[1 - r], inout(y[r]));
    EXPECT_EQ(y[1].to_host(), ints(many, 2));
  }
}

//  s0: |A|     s1: [gate] |A|      the kernel on device 0 waits for the other one
TEST(CollectivesGpus, the_kernel_of_one_that_failed_ends_whatever_holds_up_its_other_ranks) {
  WEIR_NEEDS_GPUS
  for (const std::size_t count : {std::size_t{8}, many}) {
    SCOPED_TRACE(count);
    const Ranks ranks(2);
    const auto x = ranks.arrays<int>(count, [](std::size_t, std::size_t) { return 1; });
    ranks.synchronize();
    Gate gate;
    gate.hold(ranks.streams[1]);
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    ranks.comms[0].abort();
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { ranks.streams[0].synchronize(); }));
    // Whatever is on the device.
    EXPECT_TRUE(returns_while_held(gate, [&] { static_cast<void>(error_of([] { device_of(0).synchronize(); })); }));
    gate.open();
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { ranks.streams[1].synchronize(); }));
  }
}

//  s0: |A| [gate] |B|     s1: |A| |B|      whose stream has not come to B is said, though nothing but A was there before
TEST(CollectivesGpus, a_stream_that_is_held_behind_a_collective_has_not_come_to_the_next) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2, {.timeout = std::chrono::milliseconds(300)});
  const auto x = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 1; });
  ranks.synchronize();
  const auto reduce = [&] {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  };
  Gate gate;
  reduce();
  gate.hold(ranks.streams[0]);
  reduce();
  EXPECT_TRUE(fails_with(Errc::collective_timeout, [&] { ranks.streams[1].synchronize(); },
                         {"rank 0 (its stream did not come"}));
  gate.open();
  EXPECT_TRUE(fails_with(Errc::collective_timeout, [&] { ranks.streams[0].synchronize(); }));
}

}  // namespace
}  // namespace weir_test
