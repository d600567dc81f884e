// Where the life of memory ends: behind the streams that were given it, and behind no others (C7, C10, R95, R97).
#include <algorithm>
#include <atomic>
#include <limits>
#include <memory>
#include <thread>

#include "arrays_support.hpp"
#include "support/between_looks.hpp"

using namespace weir_test;

namespace {

struct Touch {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] = 1; }
};

}  // namespace

class MemoryEnds : public AnyDevice {
 protected:
  static constexpr std::size_t mebibyte = std::size_t{1} << 20;
  static constexpr std::size_t n = mebibyte / sizeof(int);

  weir::Pool keeping_pool() const {
    return weir::Pool(device(), {.release_threshold = std::numeric_limits<std::size_t>::max()});
  }
  /// An array of `stream` that `user` was given, and that is dead.
  static void use_and_drop(const weir::Pool& pool, weir::StreamRef stream, weir::StreamRef user) {
    auto array = weir::empty<int>(stream, n, pool);
    weir::launch(user, 1, Touch{}, weir::inout(array));
  }
};
ON_EVERY_DEVICE(MemoryEnds);

// held: [hold]--[uses one array, which is dead]
// t:            [uses an array of s][uses another]...     each dead, and done with before the next is made
TEST_P(MemoryEnds, a_held_stream_that_used_one_dead_array_keeps_no_others) {
  weir::Stream held = free_stream(device(), "held");
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  const weir::Pool pool = keeping_pool();
  Gate gate;
  gate.hold(held);
  use_and_drop(pool, s, held);
  for (int k = 0; k < 1000; ++k) {
    use_and_drop(pool, s, t);
    t.synchronize();
  }
  EXPECT_LE(pool.statistics().reserved, (on("cpu") ? 8 : 256) * mebibyte);
}

// held: [hold]--[uses 40 dead arrays]
// t:    (free)                         what t gave back before is found behind those 40
TEST_P(MemoryEnds, memory_of_a_held_stream_hides_no_memory_of_others) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU reuse is the driver's";
  weir::Stream held = free_stream(device(), "held");
  weir::Stream t = free_stream(device(), "t");
  const weir::Pool pool = keeping_pool();
  Gate gate;
  gate.hold(held);
  void* const mine = pool.allocate(t, mebibyte);
  std::vector<void*> theirs;
  for (int k = 0; k < 40; ++k) theirs.push_back(pool.allocate(held, mebibyte));
  pool.free(t, mine);
  for (void* const one : theirs) pool.free(held, one);
  void* const again = pool.allocate(t, mebibyte);
  EXPECT_EQ(again, mine);
  pool.free(t, again);
}

// s: [hold 1]--[uses the array]
// t: [hold 2]--[uses the array]     dead: nobody's until both are through
TEST_P(MemoryEnds, memory_of_several_streams_is_nobodys_until_the_last_is_through) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU reuse is the driver's";
  weir::Stream home = free_stream(device(), "home");
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  weir::Stream other = free_stream(device(), "other");
  const weir::Pool pool = keeping_pool();
  Gate gate_s, gate_t;
  gate_s.hold(s);
  gate_t.hold(t);
  const void* address = nullptr;
  {
    auto array = weir::empty<int>(home, n, pool);
    address = array.data();
    weir::launch(s, 1, Touch{}, weir::inout(array));
    weir::launch(t, 1, Touch{}, weir::inout(array));
  }
  const auto is_given = [&](weir::StreamRef stream) {
    void* const data = pool.allocate(stream, mebibyte);
    pool.free(stream, data);
    pool.trim();  // so that the next one comes from nowhere else
    return data == address;
  };
  EXPECT_FALSE(is_given(other));
  EXPECT_FALSE(is_given(home));  // its own stream is ordered before neither
  gate_t.open();
  t.synchronize();
  EXPECT_FALSE(is_given(other));
  EXPECT_FALSE(is_given(t));
  gate_s.open();
  s.synchronize();
  EXPECT_TRUE(is_given(other));
}

// 40 streams use the array, one of them behind a gate: dead, it is nobody's until that one is through, whichever of them it is
TEST_P(MemoryEnds, memory_of_many_streams_is_nobodys_until_the_last_is_through) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU reuse is the driver's";
  constexpr std::size_t count = 40;
  weir::Stream home = free_stream(device(), "home");
  std::vector<weir::Stream> users;
  for (std::size_t k = 0; k < count; ++k) users.push_back(free_stream(device(), "user"));
  for (std::size_t held = 0; held < count; ++held) {
    SCOPED_TRACE(held);
    const weir::Pool pool = keeping_pool();
    Gate gate;
    gate.hold(users[held]);
    const void* address = nullptr;
    {
      auto array = weir::empty<int>(home, n, pool);
      address = array.data();
      for (std::size_t use = 0; use < 2 * count; ++use) {
        const std::size_t user = use % count;  // each has an element of its own: nothing orders them
        weir::launch(users[user], 1, Touch{}, weir::inout(array.slice(user, user + 1)));
      }
    }
    for (std::size_t k = 0; k < count; ++k) {
      if (k != held) users[k].synchronize();
    }
    const weir::Stream other = free_stream(device(), "other");
    const auto is_given = [&] {
      void* const data = pool.allocate(other, mebibyte);
      pool.free(other, data);
      pool.trim();  // so that the next one comes from nowhere else
      return data == address;
    };
    EXPECT_FALSE(is_given());
    gate.open();
    users[held].synchronize();
    EXPECT_TRUE(is_given());
  }
}

// a:      [hold]        blocking streams
// b:            [mark]
// legacy:      (free)   no command: it separates nobody
TEST_P(MemoryEnds, memory_given_back_on_the_legacy_stream_separates_no_streams) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU a free may be a command of the legacy stream";
  weir::Stream a(device());
  weir::Stream b(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const weir::Pool pool = keeping_pool();
  auto array = weir::full<int>(legacy, n, 1);
  void* const memory = pool.allocate(legacy, mebibyte);
  device().synchronize();
  Gate gate;
  Marker ran(3);
  gate.hold(a);
  array = weir::Array<int>();
  mark(b, ran, 1, 0);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.synchronize(); }));
  pool.free(legacy, memory);
  mark(b, ran, 1, 1);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.synchronize(); }));
  auto used = weir::empty<int>(legacy, n, pool);
  weir::launch(b, 1, Touch{}, weir::inout(used));
  used.free();
  mark(b, ran, 1, 2);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.synchronize(); }));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(ran.value(i), 1) << i;
  EXPECT_FALSE(gate.is_open());
}

TEST_P(MemoryEnds, the_legacy_stream_is_done_after_it_gave_memory_back) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU a free may be a command of the legacy stream";
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const weir::Pool pool = keeping_pool();
  for (int round = 0; round < 1000; ++round) {
    void* const memory = pool.allocate(legacy, mebibyte);
    device().synchronize();
    pool.free(legacy, memory);
    ASSERT_TRUE(legacy.done()) << round;
  }
}

// a:      [hold]--[writes the memory]       a blocking stream
// legacy:                            (free)
TEST_P(MemoryEnds, memory_freed_on_the_legacy_stream_is_free_behind_the_blocking_streams) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU reuse is the driver's";
  weir::Stream a(device());
  weir::Stream b(device());
  weir::Stream other = free_stream(device(), "other");
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const weir::Pool pool = keeping_pool();
  Gate gate;
  gate.hold(a);
  void* const memory = pool.allocate(a, mebibyte);
  weir::launch(a, 1, Touch{}, weir::out(weir::View<int>(static_cast<int*>(memory), n)));
  pool.free(legacy, memory);
  void* const elsewhere = pool.allocate(other, mebibyte);
  EXPECT_NE(elsewhere, memory);
  void* const beside = pool.allocate(b, mebibyte);
  EXPECT_NE(beside, memory);
  void* const behind = pool.allocate(legacy, mebibyte);
  EXPECT_EQ(behind, memory) << "the legacy stream's next command is behind those of blocking streams";
  pool.free(legacy, behind);
  gate.open();
  a.synchronize();
  EXPECT_EQ(pool.allocate(other, mebibyte), memory);
  pool.free(other, memory);
  pool.free(other, elsewhere);
  pool.free(b, beside);
}

// legacy: [hold]--[writes the memory]
// b:                                 (free)    a blocking stream: its next command is behind the legacy stream's
TEST_P(MemoryEnds, memory_freed_on_a_blocking_stream_is_free_behind_the_legacy_stream) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU reuse is the driver's";
  weir::Stream b(device());
  weir::Stream other = free_stream(device(), "other");
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const weir::Pool pool = keeping_pool();
  Gate gate;
  gate.hold(legacy);
  void* const memory = pool.allocate(legacy, mebibyte);
  weir::launch(legacy, 1, Touch{}, weir::out(weir::View<int>(static_cast<int*>(memory), n)));
  pool.free(b, memory);
  void* const elsewhere = pool.allocate(other, mebibyte);
  EXPECT_NE(elsewhere, memory);
  void* const behind = pool.allocate(b, mebibyte);
  EXPECT_EQ(behind, memory);
  pool.free(b, behind);
  gate.open();
  legacy.synchronize();
  EXPECT_EQ(pool.allocate(other, mebibyte), memory);
  pool.free(other, memory);
  pool.free(other, elsewhere);
}

// s: [hold]--[reads pinned memory that is dead] x 300      nobody waits for that
TEST_P(MemoryEnds, R213_hundreds_of_pinned_arrays_that_a_held_stream_uses_are_destroyed_at_once) {
  weir::Stream held = free_stream(device(), "held"), s = free_stream(device(), "s");
  Gate gate;
  gate.hold(held);
  s.wait(held.record());
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < 300; ++i) {
      const auto array = weir::zeros<int>(weir::pinned, 1000);
      weir::launch(s, 1, Touch{}, weir::inout(array));
    }
  }));
  gate.open();
  s.synchronize();
}

// s: [host function that owns an array] x 60               the memory is the pool's again
TEST_P(MemoryEnds, R88_arrays_whose_last_owner_is_a_host_function_are_given_back) {
  const weir::Pool pool(device(), {.release_threshold = 0});
  weir::Stream s = free_stream(device(), "s"), other = free_stream(device(), "other");
  for (int i = 0; i < 60; ++i) {
    auto array = weir::empty<int>(s, n, pool);
    if (i % 2 == 1) {
      other.wait(s);
      weir::launch(other, 1, Touch{}, weir::inout(array));
      s.wait(other);
    }
    weir::host_call(s, [owned = std::make_shared<weir::Array<int>>(std::move(array))] {});
  }
  s.synchronize();
  other.synchronize();
  EXPECT_TRUE(eventually([&] { return pool.statistics().used == 0; })) << pool.statistics().used;
  EXPECT_TRUE(eventually([&] {
    s.synchronize();
    pool.trim();
    return pool.statistics().reserved == 0;
  })) << pool.statistics().reserved;
}

// held: [hold 1]--[reads pinned memory that is dead]
// s:    [hold 2]--[reads other pinned memory that is dead]     given back when s is through
TEST_P(MemoryEnds, a_held_stream_keeps_no_pinned_memory_of_others) {
  if (!on("cpu") || !weir::devices("cuda").empty()) GTEST_SKIP() << "on a GPU pinned memory is kept for use again";
  weir::Stream held = free_stream(device(), "held");
  weir::Stream s = free_stream(device(), "s");
  const auto target = weir::zeros<int>(s, 16 * n);
  Gate gate_held, gate_s;
  gate_held.hold(held);
  gate_s.hold(s);
  const void* address = nullptr;
  {
    const auto theirs = weir::zeros<int>(weir::pinned, n);
    weir::launch(held, 1, Touch{}, weir::inout(theirs));
  }
  {
    const auto mine = weir::zeros<int>(weir::pinned, 16 * n);
    weir::copy(s, target, mine);
    address = mine.data();
  }
  EXPECT_EQ(weir::pointer_info(address).kind, weir::MemoryKind::pinned);
  gate_s.open();
  EXPECT_TRUE(eventually([&] { return weir::pointer_info(address).kind == weir::MemoryKind::pageable; }));
  EXPECT_FALSE(gate_held.is_open());
}

// s: [hold 1]--[reads the pinned memory]
// t: [hold 2]--[reads the pinned memory]     dead: it stays until both are through
TEST_P(MemoryEnds, pinned_memory_stays_until_the_last_of_several_streams_is_through) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t = free_stream(device(), "t");
  auto first = weir::zeros<int>(s, n);
  auto second = weir::zeros<int>(t, n);
  Gate gate_s, gate_t;
  gate_s.hold(s);
  gate_t.hold(t);
  const void* address = nullptr;
  {
    const auto source = weir::full<int>(weir::pinned, n, 7);
    weir::copy(s, first, source);
    weir::copy(t, second, source);
    address = source.data();
  }
  gate_t.open();
  EXPECT_EQ(read(t, second), std::vector<int>(n, 7));
  EXPECT_TRUE(stays(device(), [&] { return weir::pointer_info(address).kind == weir::MemoryKind::pinned; }));
  const auto others = weir::full<int>(weir::pinned, n, -99);
  gate_s.open();
  EXPECT_EQ(read(s, first), std::vector<int>(n, 7));
}

// Arrays outlive their streams, whose queues other threads' streams take over meanwhile.
TEST_P(MemoryEnds, arrays_of_gone_streams_are_freed_while_other_threads_open_streams) {
  std::vector<weir::Array<int>> arrays;
  for (int i = 0; i < 2000; ++i) {
    const weir::Stream s(device(), {.blocking = i % 2 == 0});
    arrays.push_back(weir::full<int>(s, 16, i));
  }
  std::atomic<bool> over{false};
  std::thread opener([&] {
    for (int i = 0; !over; ++i) {
      const weir::Stream s(device(), {.blocking = i % 2 == 0});
      const auto array = weir::full<int>(s, 16, 7);
      EXPECT_EQ(read(s, array), std::vector<int>(16, 7));
    }
  });
  arrays.clear();
  over = true;
  opener.join();
}

// Four threads take what a pool of limited size has room for once; what does not fit is refused, and nothing is lost.
TEST_P(MemoryEnds, several_threads_never_exceed_the_limit_of_a_pool) {
  if (!on("cpu")) GTEST_SKIP() << "on a GPU the driver keeps the limit";
  constexpr int threads = 4;
  for (int round = 0; round < 2000; ++round) {
    const weir::Pool pool(device(), {.max_size = mebibyte});
    std::atomic<int> ready{0};
    std::atomic<int> got{0};
    std::vector<std::thread> all;
    for (int k = 0; k < threads; ++k) {
      all.emplace_back([&] {
        const weir::Stream stream(device(), {.blocking = false});
        ++ready;
        for (int looks = 0; ready < threads; ++looks) weir_test::between_looks(looks);
        try {
          pool.free(stream, pool.allocate(stream, mebibyte / 2 + 1));
          ++got;
        } catch (const weir::Error& error) {
          EXPECT_EQ(error.code(), weir::Errc::out_of_memory);
        }
      });
    }
    for (std::thread& thread : all) thread.join();
    ASSERT_LE(pool.statistics().reserved_high, mebibyte) << round;
    ASSERT_GE(got, 1) << round;
    ASSERT_EQ(pool.statistics().used, 0u) << round;
  }
}
