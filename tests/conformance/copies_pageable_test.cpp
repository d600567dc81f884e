// Copies from and to pageable memory: when the call returns, and what it has read by then (C2, C4, R30, R36 to R41).
//
//   from      to         the call returns                        rule
//   pageable  device     at once up to 1 MiB, the source taken    R36, R37
//   pageable  device     when done beyond                         R37
//   device    pageable   when done                                R38
//   pageable  pageable   when done                                R40
//   pinned    pageable   when done                                R41
//   pageable  pinned     when the source may be used again        R41 (CUDA waits for the stream; small ones do not)
#include <atomic>
#include <thread>

#include "arrays_support.hpp"

using namespace weir_test;

class PageableCopies : public AnyDevice {
 protected:
  static constexpr std::size_t mebibyte = std::size_t{1} << 20;
};
ON_EVERY_DEVICE(PageableCopies);

// R36, R37, C2:   stream: [hold]--[source -> a]     source has changed, and is gone, before the copy runs
TEST_P(PageableCopies, to_the_device_up_to_1_mib_are_taken_before_the_call_returns) {
  weir::Stream stream(device());
  for (std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{32768}, std::size_t{65532},
                            std::size_t{65536}, std::size_t{65540}, std::size_t{131072}, mebibyte}) {
    const std::size_t n = bytes / sizeof(int);
    auto array = weir::zeros<int>(stream, n);
    Gate gate;
    gate.hold(stream);
    {
      std::vector<int> source = counted(n, 1);
      EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, array, source); })) << bytes << " bytes";
      std::fill(source.begin(), source.end(), -1);
    }
    EXPECT_FALSE(stream.done());
    gate.open();
    EXPECT_EQ(array.to_host(), counted(n, 1)) << bytes << " bytes";
  }
}

// R37:   stream: [hold]--[source -> a]                        a host thread waits for the copy,
//        other:  [source -> b][source -> b][source -> b] ...   while this one makes many like it
TEST_P(PageableCopies, to_the_device_beyond_1_mib_return_when_done) {
  weir::Stream stream(device());
  weir::Stream other = free_stream(device(), "other");
  const std::size_t n = 4 * mebibyte / sizeof(int);
  auto a = weir::zeros<int>(stream, n);
  auto b = weir::zeros<int>(other, n);
  std::vector<int> source = counted(n, 1);
  std::atomic<bool> entered{false};
  std::atomic<bool> returned{false};
  Gate gate;
  gate.hold(stream);
  std::thread caller([&] {
    entered = true;
    weir::copy(stream, a, source);
    returned = true;
  });
  EXPECT_TRUE(eventually([&] { return entered.load(); }));
  for (int i = 0; i < 20; ++i) weir::copy(other, b, source);
  EXPECT_FALSE(returned);
  gate.open();
  caller.join();
  std::fill(source.begin(), source.end(), -1);
  EXPECT_EQ(a.to_host(), counted(n, 1));
}

TEST_P(PageableCopies, of_strided_parts_follow_the_same_rules) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, {64, 32});
  auto source = weir::full<int>(weir::host, {64, 100}, 6);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, array, source.slice({{0, 64}, {3, 35}})); }));
  std::fill(source.begin(), source.end(), -1);
  gate.open();
  EXPECT_EQ(array.to_host(), std::vector<int>(64 * 32, 6));
}

// R38:   stream: [hold]--[a -> target]     host waits; the values are there on return
TEST_P(PageableCopies, from_the_device_return_when_done) {
  weir::Stream stream(device());
  for (std::size_t bytes : {std::size_t{4}, std::size_t{4096}, std::size_t{65536}, mebibyte}) {
    const std::size_t n = bytes / sizeof(int);
    const auto array = weir::from(stream, counted(n, 5));
    std::vector<int> target(n, -1);
    Gate gate;
    gate.hold(stream);
    EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, target, array); })) << bytes << " bytes";
    EXPECT_EQ(target, counted(n, 5)) << bytes << " bytes";
  }
}

// R40:   stream: [hold]--[source -> target]
TEST_P(PageableCopies, between_pageable_memories_keep_the_streams_order_and_return_when_done) {
  weir::Stream stream(device());
  const std::vector<int> source = counted(1000, 1);
  std::vector<int> target(1000, -1);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, target, source); }));
  EXPECT_EQ(target, source);
}

// R41:   stream: [hold]--[pinned -> target]
TEST_P(PageableCopies, from_pinned_memory_return_when_done) {
  weir::Stream stream(device());
  const auto source = weir::from(weir::pinned, counted(1000, 1));
  std::vector<int> target(1000, -1);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, target, source); }));
  EXPECT_EQ(target, counted(1000, 1));
}

// R41:   stream: [hold]--[source -> pinned]     source has changed before the copy runs
TEST_P(PageableCopies, to_pinned_memory_take_the_source_before_the_call_returns) {
  weir::Stream stream(device());
  auto target = weir::full<int>(weir::pinned, 1000, -1);
  std::vector<int> source = counted(1000, 1);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, target, source); }));
  std::fill(source.begin(), source.end(), -2);
  EXPECT_EQ(host_values(target), std::vector<int>(1000, -1));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(target), counted(1000, 1));
}

// R30:   stream: [hold]------------------
//        legacy:        [source -> array]     cudaMemcpy is a copy on the legacy stream, and waiting for it
TEST_P(PageableCopies, on_the_legacy_stream_wait_for_held_blocking_streams) {
  weir::Stream stream(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  for (std::size_t n : {std::size_t{1024}, std::size_t{16384}, mebibyte / 4}) {
    auto array = weir::zeros<int>(stream, n);
    const std::vector<int> pageable = counted(n, 3);
    const auto pinned = weir::from(weir::pinned, counted(n, 4));
    Gate first;
    first.hold(stream);
    EXPECT_TRUE(blocks_until_open(device(), first, [&] {
      weir::copy(legacy, array, pageable);
      legacy.synchronize();
    }));
    EXPECT_EQ(array.to_host(), pageable);
    Gate second;
    second.hold(stream);
    EXPECT_TRUE(blocks_until_open(device(), second, [&] {
      weir::copy(legacy, array, pinned);
      legacy.synchronize();
    }));
    EXPECT_EQ(array.to_host(), counted(n, 4));
  }
}

// R31, R33:   stream: [hold]----------------------------------------
//             legacy:        [array -> target][pageable -> pageable]
TEST_P(PageableCopies, on_the_legacy_stream_to_the_host_wait_for_held_blocking_streams) {
  weir::Stream stream(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const auto array = weir::from(stream, counted(1000, 7));
  std::vector<int> target(1000);
  Gate first;
  first.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), first, [&] { weir::copy(legacy, target, array); }));
  EXPECT_EQ(target, counted(1000, 7));
  const std::vector<int> source = counted(1000, 8);
  Gate second;
  second.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), second, [&] { weir::copy(legacy, target, source); }));
  EXPECT_EQ(target, source);
}

// R34:   free:   [hold]-------------------------
//        legacy:        [copies of every kind]
TEST_P(PageableCopies, on_the_legacy_stream_do_not_wait_for_non_blocking_streams) {
  weir::Stream held = free_stream(device(), "held");
  const weir::StreamRef legacy = weir::legacy_stream(device());
  auto array = weir::from(legacy, counted(1000));
  auto twin = weir::empty<int>(legacy, 1000);
  auto pinned = weir::from(weir::pinned, counted(1000, 1));
  std::vector<int> target(1000), source = counted(1000, 2);
  legacy.synchronize();
  Gate gate;
  gate.hold(held);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::copy(legacy, array, source);
    weir::copy(legacy, array, pinned);
    weir::copy(legacy, twin, array);
    weir::copy(legacy, pinned, twin);
    weir::copy(legacy, target, twin);
    weir::copy(legacy, source, target);
    legacy.synchronize();
  }));
  EXPECT_EQ(source, counted(1000, 1));
}

// R36, R38:   stream: [hold]--[value -> x]     value has changed before the copy runs
TEST_P(PageableCopies, of_a_variable_are_of_one_element) {
  weir::Stream stream(device());
  auto x = weir::zeros<double>(stream, 1);
  const auto line = weir::zeros<double>(stream, 3);
  double value = 2.5;
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, x, value); }));
  value = 0;
  gate.open();
  double back = 0;
  weir::copy(stream, back, x);
  EXPECT_EQ(back, 2.5);
  weir::copy(stream, line.slice(1, 2), back);
  EXPECT_EQ(line.to_host(stream), (std::vector<double>{0, 2.5, 0}));
  weir::copy(back, line.slice(2, 3));
  EXPECT_EQ(back, 0);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { weir::copy(stream, back, line); },
                         {"weir::copy", "copies_pageable_test.cpp"}));
}
