// Many calls of one group: what they give is what each gives alone, and small sums on GPUs have a kernel for many.
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/host_call.hpp>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using weir::in;
using weir::inout;
using weir::out;

using Arrays = std::vector<weir::Array<int>>;

/// Kernels that the fake driver was given; none elsewhere.
std::optional<int> kernels() {
  using Count = int (*)();
  const auto count = reinterpret_cast<Count>(dlsym(RTLD_DEFAULT, "fake_box_reduces"));
  return count != nullptr && !on_cpu() ? std::optional<int>(count()) : std::nullopt;
}

/// `calls` arrays of each rank; what rank r has of call i is i + r + 1 everywhere.
std::vector<Arrays> arrays_of(const Ranks& ranks, const std::vector<std::size_t>& counts) {
  std::vector<Arrays> all;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    all.push_back(ranks.arrays<int>(counts[i], [&](std::size_t r, std::size_t) { return i + r + 1; }));
  }
  ranks.synchronize();
  return all;
}
int sum_of(std::size_t call, std::size_t ranks) { return static_cast<int>(ranks * call + ranks * (ranks + 1) / 2); }
void expect_sums(const std::vector<Arrays>& all, std::size_t ranks) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    for (std::size_t r = 0; r < ranks; ++r) {
      ASSERT_EQ(all[i][r].to_host(), ints(all[i][r].size(), sum_of(i, ranks))) << "call " << i << ", rank " << r;
    }
  }
}
void sum_in_a_group(const Ranks& ranks, const std::vector<Arrays>& all) {
  const weir::CollectiveGroup group;
  for (const Arrays& one : all) {
    for (std::size_t r = 0; r < ranks.size(); ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(one[r]));
  }
}

TEST(CollectivesGroups, of_small_sums_give_what_each_gives_alone) {
  for (const std::size_t size : {2u, 3u, 4u}) {
    if (size > most_ranks()) break;
    SCOPED_TRACE(size);
    const Ranks ranks(size);
    // One block of a kernel each, several, and all that there are.
    std::vector<std::size_t> counts(20, 3);
    for (const std::size_t count : {1, 5'000, 2'048, 2'049, 40'000, 65'536, 65'537, 10, 200'000, 7})
      counts.push_back(count);
    for (int turn = 0; turn < 3; ++turn) {
      const auto all = arrays_of(ranks, counts);
      const Arrays one = ranks.arrays<int>(3, [](std::size_t, std::size_t) { return 1; });
      sum_in_a_group(ranks, all);
      for (std::size_t r = 0; r < size; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(one[r]));
      ranks.synchronize();
      expect_sums(all, size);
      EXPECT_EQ(one[size - 1].to_host(), ints(3, static_cast<int>(size)));
    }
  }
}

TEST(CollectivesGroups, of_small_sums_have_one_kernel_for_as_many_as_fit) {
  WEIR_NEEDS_GPUS;
  if (!kernels()) GTEST_SKIP() << "only the fake driver counts";
  if (std::getenv("WEIR_TRACE") != nullptr)
    GTEST_SKIP() << "calls whose times somebody wants have kernels of their own";
  const Ranks ranks(2);
  const auto warm = arrays_of(ranks, {1});
  sum_in_a_group(ranks, warm);
  ranks.synchronize();
  const auto count_of = [&](const std::vector<std::size_t>& counts) {
    const auto all = arrays_of(ranks, counts);
    const int before = *kernels();
    sum_in_a_group(ranks, all);
    ranks.synchronize();
    expect_sums(all, 2);
    return *kernels() - before;
  };
  EXPECT_EQ(count_of(std::vector<std::size_t>(32, 3)), 2) << "one on each GPU";
  EXPECT_EQ(count_of(std::vector<std::size_t>(33, 3)), 4);
  EXPECT_EQ(count_of({2'049, 3}), 2) << "the first has two blocks";
  EXPECT_EQ(count_of({65'536, 3}), 4) << "the first has them all";
  EXPECT_EQ(count_of(std::vector<std::size_t>(100, 256)), 8);
}

TEST(CollectivesGroups, of_different_kinds_types_and_operations_are_each_done) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = arrays_of(ranks, {5, 5, 5, 5, many});
  const auto f = ranks.arrays<float>(5, [](std::size_t r, std::size_t) { return 0.5 + static_cast<double>(r); });
  const auto h = ranks.arrays<short>(5, [](std::size_t r, std::size_t) { return r + 1; });
  const auto g = ranks.zeros<int>(10);
  ranks.synchronize();
  {
    const weir::CollectiveGroup group;
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[0][r]));
    for (std::size_t r = 0; r < 2; ++r) {
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[1][r]), weir::Maximum{});
    }
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(f[r]));
    for (std::size_t r = 0; r < 2; ++r) weir::all_gather(ranks.streams[r], ranks.comms[r], in(x[2][r]), out(g[r]));
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(h[r]));
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[4][r]));
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[3][r]));
  }
  ranks.synchronize();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(x[0][r].to_host(), ints(5, 3));
    EXPECT_EQ(x[1][r].to_host(), ints(5, 3));
    EXPECT_EQ(f[r].to_host(), std::vector<float>(5, 2.0f));
    EXPECT_EQ(h[r].to_host(), std::vector<short>(5, 3));
    EXPECT_EQ(g[r].to_host(), (std::vector<int>{3, 3, 3, 3, 3, 4, 4, 4, 4, 4}));
    EXPECT_EQ(x[4][r].to_host(), ints(many, 11));
    EXPECT_EQ(x[3][r].to_host(), ints(5, 9));
  }
}

//  y = the sum of x, z = the sum of y, x = the sum of z: a communicator is ordered like a stream.
TEST(CollectivesGroups, that_use_what_others_of_theirs_give_keep_the_order_of_the_communicator) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  for (int turn = 0; turn < 20; ++turn) {
    const auto x = ranks.arrays<int>(100, [](std::size_t, std::size_t) { return 1; });
    const auto y = ranks.zeros<int>(100), z = ranks.zeros<int>(100);
    ranks.synchronize();
    {
      const weir::CollectiveGroup group;
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], in(x[r]), out(y[r]));
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], in(y[r]), out(z[r]));
      for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], in(z[r]), out(x[r]));
    }
    ranks.synchronize();
    ASSERT_EQ(x[0].to_host(), ints(100, 8));
    ASSERT_EQ(x[1].to_host(), ints(100, 8));
  }
}

TEST(CollectivesGroups, by_a_thread_for_each_rank) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  for (int turn = 0; turn < 10; ++turn) {
    const auto all = arrays_of(ranks, std::vector<std::size_t>(40, 9));
    const auto sum = [&](std::size_t r) {
      const weir::CollectiveGroup group;
      for (const Arrays& one : all) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(one[r]));
    };
    std::thread other(sum, 1);
    sum(0);
    other.join();
    ranks.synchronize();
    expect_sums(all, 2);
  }
}

TEST(CollectivesGroups, come_behind_what_their_streams_have) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto all = arrays_of(ranks, std::vector<std::size_t>(10, 9));
  Gate gate;
  gate.hold_by_host_call(ranks.streams[1]);
  sum_in_a_group(ranks, all);
  EXPECT_TRUE(stays(device_of(0), [&] { return !ranks.streams[0].done() && !ranks.streams[1].done(); }));
  gate.open();
  ranks.synchronize();
  expect_sums(all, 2);
}

TEST(CollectivesGroups, of_a_stream_that_failed_fail_on_all_ranks_and_give_nothing) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto all = arrays_of(ranks, std::vector<std::size_t>(10, 9));
  weir::host_call(ranks.streams[1], [] { throw std::runtime_error("the disk is full"); });
  try {
    sum_in_a_group(ranks, all);
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.errc(), weir::Errc::rank_failed) << error.what();  // it failed before all were called
  }
  EXPECT_TRUE(fails_with(weir::Errc::rank_failed, [&] { ranks.streams[0].synchronize(); }, {"the disk is full"}));
  EXPECT_TRUE(
      fails_with(weir::Errc::host_function_failed, [&] { ranks.streams[1].synchronize(); }, {"the disk is full"}));
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i][0].to_host(), ints(9, static_cast<int>(i) + 1)) << i;
}

}  // namespace
}  // namespace weir_test
