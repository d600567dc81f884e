// Small sums of one CollectiveGroup, of ranks that are processes: on GPUs that reach each other they are one kernel.
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <vector>

#include <dlfcn.h>

#include <gtest/gtest.h>

#include "ranks/world.hpp"
#include "support/gate.hpp"

namespace {

using ranks_test::shared;

/// Of the fake driver's: how many kernels of small sums this process has launched.
std::optional<int> kernels() {
  const auto count = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "fake_box_reduces"));
  const char* const transport = std::getenv("WEIR_TEST_TRANSPORT");
  if (count == nullptr || transport == nullptr || shared().transport() != "NCCL") return std::nullopt;
  return count();
}

class OnRanksInGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!ranks_test::is_rank()) GTEST_SKIP() << "needs several processes: weir ranks, or mpirun";
    rank_ = shared().rank();
    size_ = shared().size();
  }
  weir::Array<float> filled(std::size_t count, int value) const {
    return weir::full(s_, count, static_cast<float>(value));
  }
  void sum(const auto& x) const { weir::all_reduce(s_, shared(), weir::inout(x)); }
  /// Of what was `value` times the rank's number from 1.
  void expect_sum(const weir::Array<float>& x, int value) const {
    s_.synchronize();
    const std::vector<float> host = x.to_host();
    const auto all = static_cast<float>(value * size_ * (size_ + 1) / 2);
    EXPECT_TRUE(std::all_of(host.begin(), host.end(), [&](float one) { return one == all; }))
        << "rank " << rank_ << ": of " << host.size() << " the first is " << host.front() << ", not " << all;
  }
  /// How many kernels the calls took.
  template <class F>
  void expect_kernels(int wanted, F&& calls) const {
    const auto before = kernels();
    calls();
    if (before) {
      EXPECT_EQ(*kernels() - *before, wanted);
    }
  }

  weir::Stream s_{ranks_test::device()};
  int rank_ = 0;
  int size_ = 0;
};

TEST_F(OnRanksInGroups, small_sums_have_one_kernel_whether_the_other_ranks_group_them_or_not) {
  std::vector<weir::Array<float>> all;
  // Of one block, and of several.
  for (const std::size_t count : {1, 2, 3'000, 20'000, 7}) all.push_back(filled(count, 0));
  for (int round = 1; round <= 20; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i)
      weir::fill(s_, all[i], static_cast<float>(round + static_cast<int>(i)) * static_cast<float>(rank_ + 1));
    const bool grouped = (round + rank_) % 3 != 0;
    expect_kernels(grouped ? 1 : static_cast<int>(all.size()), [&] {
      std::optional<weir::CollectiveGroup> group;
      if (grouped) group.emplace();
      for (const auto& x : all) sum(x);
    });
    for (std::size_t i = 0; i < all.size(); ++i) expect_sum(all[i], round + static_cast<int>(i));
  }
}

TEST_F(OnRanksInGroups, more_sums_than_a_kernel_takes_have_several) {
  constexpr int count = 70;
  std::vector<weir::Array<float>> all;
  for (int i = 0; i < count; ++i) all.push_back(filled(4, (i + 1) * (rank_ + 1)));
  expect_kernels(3, [&] {
    const weir::CollectiveGroup group;
    for (const auto& x : all) sum(x);
  });
  for (int i = 0; i < count; ++i) expect_sum(all[static_cast<std::size_t>(i)], i + 1);
}

TEST_F(OnRanksInGroups, sums_of_other_arrays_operations_streams_and_communicators_keep_their_place) {
  const weir::Communicator second = ranks_test::make({.name = "second"});
  const weir::Stream t(s_.device());
  const auto x = filled(8, rank_ + 1), y = filled(8, 2 * (rank_ + 1)), most = filled(8, rank_ + 1);
  const auto large = filled(100'000, 3 * (rank_ + 1)), late = filled(8, 4 * (rank_ + 1));
  const auto whole = weir::full(s_, 8, rank_ + 1);
  const auto aside = filled(8, 5 * (rank_ + 1)), of_second = filled(8, 6 * (rank_ + 1));
  s_.synchronize();
  {
    const weir::CollectiveGroup group;
    sum(x);
    sum(y);
    weir::all_reduce(s_, shared(), weir::inout(most), weir::Maximum{});
    weir::all_reduce(s_, shared(), weir::inout(whole));
    weir::all_reduce(s_, second, weir::inout(of_second));
    sum(large);  // not in a kernel of ours
    sum(late);
    weir::all_reduce(t, shared(), weir::inout(aside));
  }
  t.synchronize();
  expect_sum(x, 1);
  expect_sum(y, 2);
  EXPECT_EQ(most.to_host(), std::vector<float>(8, static_cast<float>(size_)));
  EXPECT_EQ(whole.to_host(), std::vector<int>(8, size_ * (size_ + 1) / 2));
  expect_sum(of_second, 6);
  expect_sum(large, 3);
  expect_sum(late, 4);
  expect_sum(aside, 5);
}

/// What goes another way is over when those before it are, which must not wait behind it.
TEST_F(OnRanksInGroups, small_sums_are_under_way_before_one_that_is_no_kernel) {
  const auto x = filled(8, rank_ + 1), large = filled(100'000, 2 * (rank_ + 1)), late = filled(8, 3 * (rank_ + 1));
  expect_kernels(2, [&] {
    const weir::CollectiveGroup group;
    sum(x);
    sum(large);
    sum(late);
  });
  expect_sum(x, 1);
  expect_sum(large, 2);
  expect_sum(late, 3);
}

TEST_F(OnRanksInGroups, a_sum_of_another_stream_comes_behind_what_is_there) {
  const weir::Stream t(s_.device(), {.blocking = false}), held(s_.device(), {.blocking = false});
  const auto x = filled(8, rank_ + 1), y = filled(8, 0);
  s_.synchronize();
  weir_test::Gate gate;
  gate.hold(held);
  weir::fill(held, y, static_cast<float>(2 * (rank_ + 1)));
  {
    const weir::CollectiveGroup group;
    weir::all_reduce(t, shared(), weir::inout(x));
    weir::all_reduce(held, shared(), weir::inout(y));
  }
  gate.open();
  t.synchronize();
  held.synchronize();
  expect_sum(x, 1);
  expect_sum(y, 2);
}

/// A communicator is ordered like a stream, whatever way its calls go by.
TEST_F(OnRanksInGroups, calls_that_have_what_others_give_follow_them) {
  const int all = size_ * (size_ + 1) / 2;
  const auto x = filled(20'000, rank_ + 1), y = filled(20'000, 0), small = filled(8, rank_ + 1);
  const auto large = filled(100'000, rank_ + 1), shared_by_two = filled(100'000, rank_ + 1);
  expect_kernels(4, [&] {
    const weir::CollectiveGroup group;
    sum(x);
    sum(x);  // reads what the first gives
    weir::all_reduce(s_, shared(), weir::in(x), weir::out(y));
    sum(small);
    weir::broadcast(s_, shared(), weir::inout(small), 0);  // its root reads it
    sum(large.slice(10, 20));
    sum(large);  // another way, where small ones are kernels
    sum(shared_by_two);
    weir::broadcast(s_, shared(), weir::inout(shared_by_two.slice(10, 20)), 0);  // gives what another one gave
  });
  s_.synchronize();
  const auto is = [](const weir::Array<float>& array, std::size_t begin, std::size_t end, int value) {
    const std::vector<float> whole = array.to_host();
    const std::vector<float> host(whole.begin() + static_cast<std::ptrdiff_t>(begin),
                                  whole.begin() + static_cast<std::ptrdiff_t>(end));
    return std::all_of(host.begin(), host.end(), [&](float one) { return one == static_cast<float>(value); });
  };
  EXPECT_TRUE(is(x, 0, x.size(), size_ * all));
  EXPECT_TRUE(is(y, 0, y.size(), size_ * size_ * all));
  EXPECT_TRUE(is(small, 0, 8, all));
  EXPECT_TRUE(is(large, 0, 10, all));
  EXPECT_TRUE(is(large, 10, 20, size_ * all));
  EXPECT_TRUE(is(large, 20, large.size(), all));
  EXPECT_TRUE(is(shared_by_two, 0, shared_by_two.size(), all));
}

TEST_F(OnRanksInGroups, what_stands_in_the_stream_behind_the_group_comes_behind_its_sums) {
  const auto x = filled(64, rank_ + 1), y = filled(64, rank_ + 1), copied = filled(64, 0);
  for (int i = 0; i < 50; ++i) {
    weir::fill(s_, x, static_cast<float>(rank_ + 1));
    weir::fill(s_, y, static_cast<float>(2 * (rank_ + 1)));
    {
      const weir::CollectiveGroup group;
      sum(x);
      sum(y);
    }
    weir::copy(s_, copied, y);
    weir::fill(s_, y, 0.0f);
    expect_sum(copied, 2);
  }
}

}  // namespace
