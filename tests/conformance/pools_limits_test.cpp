// Pools: thresholds, trimming, limits, statistics, and memory that runs out (R99 to R103, R105).
// Left out: R104 (destroying the default pool): there is no way to write it.
#include <limits>
#include <optional>

#include "arrays_support.hpp"

using namespace weir_test;

class PoolLimits : public AnyDevice {
 protected:
  static constexpr std::size_t mebibyte = std::size_t{1} << 20;
};
ON_EVERY_DEVICE(PoolLimits);

TEST_P(PoolLimits, a_pool_knows_its_device_and_options) {
  const weir::Pool pool(device(), {.release_threshold = 12345});
  EXPECT_EQ(pool.device(), device());
  EXPECT_EQ(pool.release_threshold(), 12345u);
  EXPECT_EQ(weir::Pool(device()).release_threshold(), 0u);
  pool.set_release_threshold(99);
  EXPECT_EQ(pool.release_threshold(), 99u);
}

// R101: CUDA's default pool has the threshold 0; Weir's keeps its memory.
TEST_P(PoolLimits, the_default_pool_keeps_its_memory) {
  EXPECT_EQ(weir::default_pool(device()).release_threshold(), std::numeric_limits<std::size_t>::max());
  EXPECT_EQ(weir::default_pool(device()).device(), device());
  EXPECT_EQ(weir::get_pool(device()), weir::default_pool(device()));
}

// R99
TEST_P(PoolLimits, nothing_is_null) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  EXPECT_EQ(pool.allocate(stream, 0), nullptr);
  pool.free(stream, nullptr);
  EXPECT_EQ(pool.statistics().used, 0u);
}

// R102
TEST_P(PoolLimits, without_a_threshold_unused_memory_goes_back_when_the_device_synchronises) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  void* const memory = pool.allocate(stream, 100 * mebibyte);
  EXPECT_GE(pool.statistics().reserved, 100 * mebibyte);
  EXPECT_EQ(pool.statistics().used, 100 * mebibyte);
  pool.free(stream, memory);
  EXPECT_EQ(pool.statistics().used, 0u);
  EXPECT_GE(pool.statistics().reserved, 100 * mebibyte);
  device().synchronize();
  EXPECT_EQ(pool.statistics().reserved, 0u);
  EXPECT_GE(pool.statistics().reserved_high, 100 * mebibyte);
}

TEST_P(PoolLimits, with_a_threshold_it_stays_until_trimmed) {
  weir::Stream stream(device());
  const weir::Pool pool(device(), {.release_threshold = std::numeric_limits<std::size_t>::max()});
  pool.free(stream, pool.allocate(stream, 64 * mebibyte));
  device().synchronize();
  EXPECT_GE(pool.statistics().reserved, 64 * mebibyte);
  pool.trim();
  EXPECT_EQ(pool.statistics().reserved, 0u);
}

TEST_P(PoolLimits, the_threshold_may_be_changed_later) {
  weir::Stream stream(device());
  const weir::Pool pool(device(), {.release_threshold = std::numeric_limits<std::size_t>::max()});
  pool.free(stream, pool.allocate(stream, 64 * mebibyte));
  device().synchronize();
  pool.set_release_threshold(0);
  device().synchronize();
  EXPECT_EQ(pool.statistics().reserved, 0u);
}

// stream: (allocate)[hold]--(free)     the free is pending: trimming leaves the memory where it is
TEST_P(PoolLimits, trimming_leaves_memory_that_is_in_use) {
  weir::Stream stream = free_stream(device(), "s");
  const weir::Pool pool(device());
  auto live = weir::full<int>(stream, 1000, 1);
  auto* const memory = static_cast<int*>(pool.allocate(stream, mebibyte));
  Gate gate;
  gate.hold(stream);
  weir::launch(stream, mebibyte / sizeof(int), Count{}, weir::View<int>(memory, mebibyte / sizeof(int)), 0);
  pool.free(stream, memory);
  EXPECT_TRUE(returns_while_held(gate, [&] { pool.trim(); }));
  EXPECT_GE(pool.statistics().reserved, mebibyte);
  gate.open();
  device().synchronize();
  pool.trim();
  EXPECT_EQ(pool.statistics().reserved, 0u);
  EXPECT_EQ(read(stream, live), std::vector<int>(1000, 1));
}

TEST_P(PoolLimits, trimming_keeps_what_it_is_told_to) {
  weir::Stream stream(device());
  const weir::Pool pool(device(), {.release_threshold = std::numeric_limits<std::size_t>::max()});
  void* pieces[16];
  for (void*& piece : pieces) piece = pool.allocate(stream, 8 * mebibyte);
  for (void* piece : pieces) pool.free(stream, piece);
  device().synchronize();
  const std::size_t before = pool.statistics().reserved;
  pool.trim(before);
  EXPECT_EQ(pool.statistics().reserved, before);
  pool.trim(40 * mebibyte);
  EXPECT_GE(pool.statistics().reserved, 40 * mebibyte);
  EXPECT_LE(pool.statistics().reserved, before);
}

TEST_P(PoolLimits, statistics_follow_what_is_used_and_its_highest_mark) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  void* const a = pool.allocate(stream, 3 * mebibyte);
  void* const b = pool.allocate(stream, 2 * mebibyte);
  EXPECT_EQ(pool.statistics().used, 5 * mebibyte);
  pool.free(stream, a);
  EXPECT_EQ(pool.statistics().used, 2 * mebibyte);
  EXPECT_EQ(pool.statistics().used_high, 5 * mebibyte);
  EXPECT_GE(pool.statistics().reserved, pool.statistics().used);
  pool.reset_high_marks();
  EXPECT_EQ(pool.statistics().used_high, 2 * mebibyte);
  EXPECT_EQ(pool.statistics().reserved_high, pool.statistics().reserved);
  pool.free(stream, b);
  EXPECT_EQ(pool.statistics().used, 0u);
  EXPECT_EQ(pool.statistics().used_high, 2 * mebibyte);
  pool.free(stream, pool.allocate(stream, mebibyte));
  EXPECT_EQ(pool.statistics().used_high, 2 * mebibyte);
}

TEST_P(PoolLimits, a_limited_pool_says_no_and_goes_on) {
  weir::Stream stream(device());
  const weir::Pool pool(device(), {.release_threshold = 64 * mebibyte, .max_size = 64 * mebibyte});
  void* const first = pool.allocate(stream, 40 * mebibyte);
  const weir::PoolStatistics before = pool.statistics();
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { (void)pool.allocate(stream, 40 * mebibyte); },
                         {"allocat", "67108864"}));
  EXPECT_EQ(pool.statistics().used, before.used);
  EXPECT_EQ(pool.statistics().reserved, before.reserved);
  pool.free(stream, first);
  void* const second = pool.allocate(stream, 40 * mebibyte);
  EXPECT_EQ(second, first);
  pool.free(stream, second);
}

TEST_P(PoolLimits, unused_memory_makes_way_for_other_sizes_within_the_limit) {
  weir::Stream stream(device());
  const weir::Pool pool(device(), {.release_threshold = 64 * mebibyte, .max_size = 64 * mebibyte});
  for (std::size_t size : {60 * mebibyte, 10 * mebibyte, 64 * mebibyte, 33 * mebibyte, 64 * mebibyte}) {
    void* const memory = pool.allocate(stream, size);
    pool.free(stream, memory);
    stream.synchronize();
  }
  EXPECT_LE(pool.statistics().reserved_high, 64 * mebibyte);
}

// R105
TEST_P(PoolLimits, more_than_the_device_has_is_refused_and_nothing_is_lost) {
  weir::Stream stream(device());
  const weir::Pool pool(device());
  const weir::PoolStatistics before = weir::default_pool(device()).statistics();
  const std::size_t tebibyte = std::size_t{1} << 40;
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { (void)pool.allocate(stream, 16 * tebibyte); }));
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { (void)weir::empty<char>(stream, 16 * tebibyte); }));
  EXPECT_TRUE(fails_with(weir::Errc::out_of_memory, [&] { (void)weir::zeros<char>(stream, 16 * tebibyte); }));
  EXPECT_EQ(pool.statistics().reserved, 0u);
  EXPECT_EQ(weir::default_pool(device()).statistics().used, before.used);
  stream.synchronize();
  EXPECT_EQ(weir::full<int>(stream, 100, 3).to_host(), std::vector<int>(100, 3));
}

// R103
TEST_P(PoolLimits, arrays_come_from_the_pool_that_is_set) {
  weir::Stream stream(device());
  weir::Pool pool(device());
  weir::set_pool(device(), pool);
  EXPECT_EQ(weir::get_pool(device()), pool);
  {
    const auto a = weir::full<int>(stream, 1 << 20, 3);
    EXPECT_GE(pool.statistics().used, std::size_t{4} << 20);
    weir::set_pool(device(), weir::default_pool(device()));
    const std::size_t used = pool.statistics().used;
    const auto b = weir::full<int>(stream, 1 << 20, 4);
    EXPECT_EQ(pool.statistics().used, used);
    EXPECT_EQ(a.to_host().back(), 3);
    EXPECT_EQ(b.to_host().back(), 4);
  }
  EXPECT_EQ(pool.statistics().used, 0u);
}

// R103: device A: the pool object ends, its arrays do not
TEST_P(PoolLimits, arrays_outlive_their_pool) {
  weir::Stream stream(device());
  weir::Array<int> array;
  {
    const weir::Pool pool(device());
    array = weir::empty<int>(stream, 1000, pool);
    weir::fill(stream, array, 3);
  }
  weir::launch(stream, 1000, AddValue{}, weir::inout(array), 1);
  EXPECT_EQ(array.to_host(), std::vector<int>(1000, 4));
  array = weir::Array<int>();
  stream.synchronize();
}

TEST_P(PoolLimits, when_the_set_pool_ends_the_default_one_is_back) {
  {
    const weir::Pool pool(device());
    weir::set_pool(device(), pool);
  }
  EXPECT_EQ(weir::get_pool(device()), weir::default_pool(device()));
  EXPECT_EQ(weir::full<int>(device(), 10, 1).to_host(), std::vector<int>(10, 1));
}

// stream: (allocate)[hold]--[write](free)     the pool ends while its memory is in use
TEST_P(PoolLimits, a_pool_may_end_while_its_memory_is_in_use) {
  weir::Stream stream = free_stream(device(), "s");
  auto result = weir::zeros<int>(weir::pinned, 1000);
  Gate gate;
  {
    const weir::Pool pool(device());
    auto array = weir::empty<int>(stream, 1000, pool);
    gate.hold(stream);
    weir::launch(stream, 1000, Count{}, weir::out(array), 0);
    weir::copy(stream, result, array);
  }
  const auto others = weir::full<int>(stream, 1000, -99);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(result), counted(1000));
  EXPECT_EQ(read(stream, others), std::vector<int>(1000, -99));
}

TEST_P(PoolLimits, a_moved_pool_has_one_owner) {
  weir::Stream stream(device());
  std::optional<weir::Pool> first(std::in_place, device());
  void* const memory = first->allocate(stream, mebibyte);
  weir::Pool second = std::move(*first);
  first.reset();
  EXPECT_EQ(second.statistics().used, mebibyte);
  second.free(stream, memory);
  EXPECT_EQ(second.statistics().used, 0u);
}
