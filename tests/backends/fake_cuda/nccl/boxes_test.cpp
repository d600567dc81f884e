// all_reduce of little, by kernels of Weir's: what it leaves to NCCL, and what holds its kernels in order.
#include <cstddef>
#include <cstdint>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/reduce_kernels.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::inout;

std::uint64_t groups_of_nccl() { return fake_cuda::calls("ncclGroupEnd"); }

constexpr std::size_t most_ints = weir::cuda::most_box_bytes / sizeof(int);

/// How many groups NCCL has of an all_reduce.
std::uint64_t groups_for(const Ranks& ranks, std::size_t count) {
  const auto x = ranks.arrays<int>(count, [](std::size_t r, std::size_t i) { return r + i; });
  ranks.synchronize();
  const std::uint64_t before = groups_of_nccl();
  for (std::size_t r = 0; r < ranks.size(); ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  ranks.synchronize();
  const auto n = static_cast<int>(ranks.size());
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(x[r].to_host().back(), n * (n - 1) / 2 + n * static_cast<int>(count - 1));
  }
  return groups_of_nccl() - before;
}

TEST(ReduceBoxes, take_what_is_small_and_leave_the_rest_to_nccl) {
  const Ranks ranks(3);
  EXPECT_EQ(groups_for(ranks, 1), 0u);
  EXPECT_EQ(groups_for(ranks, most_ints), 0u);
  EXPECT_EQ(groups_for(ranks, most_ints + 1), 1u);
}

TEST(ReduceBoxes, are_for_gpus_that_reach_each_other) {
  const fake_cuda::OutOfReach far(6, 4);
  EXPECT_EQ(groups_for(Ranks({device_of(6), device_of(4)}), 8), 1u);
}

//  device 0: s0 [gate] |A|    t0 |B|        device 1: s1 |A| |B|
TEST(ReduceBoxes, of_one_device_follow_each_other_whatever_their_streams) {
  const Ranks ranks(2);
  const weir::Stream t0(device_of(0));
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return 10 * (r + 1); });
  ranks.synchronize();
  Gate gate;
  gate.hold(ranks.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  weir::all_reduce(t0, ranks.comms[0], inout(y[0]));
  weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(y[1]));
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return !t0.done(); }));
  gate.open();
  t0.synchronize();
  ranks.synchronize();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(x[r].to_host(), ints(8, 3));
    EXPECT_EQ(y[r].to_host(), ints(8, 30));
  }
}

//  device 0: s0 |broadcast A|, by NCCL    t0 |all_reduce B|        device 1: s1 [gate] |A|    t1 |B|
TEST(ReduceBoxes, come_behind_what_nccl_has) {
  const Ranks ranks(2), others(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = others.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  ranks.synchronize();
  others.synchronize();
  Gate gate;
  gate.hold(ranks.streams[1]);
  for (std::size_t r = 0; r < 2; ++r) weir::broadcast(ranks.streams[r], ranks.comms[r], inout(x[r]), 0);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(others.streams[r], others.comms[r], inout(y[r]));
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return !others.streams[0].done() && !others.streams[1].done(); }));
  gate.open();
  ranks.synchronize();
  others.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(8, 1));
  EXPECT_EQ(y[1].to_host(), ints(8, 3));
}

}  // namespace
}  // namespace weir_test
