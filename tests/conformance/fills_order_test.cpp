// Fills in the order of their stream, asynchronous to the host (C2, R43, R45, R51).
// Left out: R44 (cudaMemset on pinned memory blocks): weir::fill is R45's asynchronous one for every kind but pageable.
#include "arrays_support.hpp"

using namespace weir_test;

class FillOrder : public AnyDevice {};
ON_EVERY_DEVICE(FillOrder);

// R45:   stream: [hold]--[device = 2][pinned = 2]
TEST_P(FillOrder, device_and_pinned_memory_is_filled_asynchronously) {
  weir::Stream stream(device());
  auto array = weir::full<int>(stream, 1000, 1);
  auto pinned = weir::full<int>(weir::pinned, 1000, 1);
  stream.synchronize();
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::fill(stream, array, 2);
    weir::fill(stream, pinned, 2);
  }));
  EXPECT_EQ(host_values(pinned), std::vector<int>(1000, 1));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(pinned), std::vector<int>(1000, 2));
  EXPECT_EQ(array.to_host(), std::vector<int>(1000, 2));
}

// R43:   stream: [hold]----------
//        legacy:         [a = 2]     held back by legacy order, the host is not
TEST_P(FillOrder, a_fill_on_the_legacy_stream_does_not_hold_the_host) {
  weir::Stream stream(device());
  auto array = weir::full<int>(stream, 100, 1);
  stream.synchronize();
  Gate gate;
  gate.hold(stream);
  const weir::StreamRef legacy = weir::legacy_stream(device());
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::fill(legacy, array, 2); }));
  EXPECT_TRUE(stays(device(), [&] { return !legacy.done(); }));
  gate.open();
  legacy.synchronize();
  EXPECT_EQ(array.to_host(), std::vector<int>(100, 2));
}

// stream: [a = 1][a += 1][a = 5][a += 2][hold]--[a += 3][a = 9][a += 1]
TEST_P(FillOrder, fills_and_kernels_of_one_stream_take_turns) {
  weir::Stream stream(device());
  auto array = weir::empty<int>(stream, 5000);
  auto middle = weir::empty<int>(weir::pinned, 5000);
  Gate gate;
  weir::fill(stream, array, 1);
  weir::launch(stream, 5000, AddValue{}, weir::inout(array), 1);
  weir::fill(stream, array, 5);
  weir::launch(stream, 5000, AddValue{}, weir::inout(array), 2);
  gate.hold(stream);
  weir::launch(stream, 5000, AddValue{}, weir::inout(array), 3);
  weir::copy(stream, middle, array);
  weir::fill(stream, array, 9);
  weir::launch(stream, 5000, AddValue{}, weir::inout(array), 1);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(middle), std::vector<int>(5000, 10));
  EXPECT_EQ(array.to_host(), std::vector<int>(5000, 10));
}

// stream: [hold]--[a = value]     value has changed, and is gone, before the fill runs
TEST_P(FillOrder, the_value_is_taken_by_the_call) {
  struct Large {
    int numbers[25];
  };
  weir::Stream stream(device());
  auto array = weir::empty<Large>(stream, 50);
  Gate gate;
  gate.hold(stream);
  {
    Large value;
    std::fill_n(value.numbers, 25, 6);
    weir::fill(stream, array, value);
    std::fill_n(value.numbers, 25, -1);
  }
  gate.open();
  for (const Large& element : array.to_host()) {
    for (int number : element.numbers) ASSERT_EQ(number, 6);
  }
}

// R51:   held:  [hold]-----------
//        other: [a = 2][b <- a]      both finish while the kernel runs
TEST_P(FillOrder, fills_overlap_a_kernel_of_another_stream) {
  weir::Stream held = free_stream(device(), "held");
  weir::Stream other = free_stream(device(), "other");
  auto a = weir::full<int>(other, 1000, 1);
  auto b = weir::full<int>(other, 1000, 1);
  other.synchronize();
  Gate gate;
  gate.hold(held);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  weir::fill(other, a, 2);
  weir::copy(other, b, a);
  EXPECT_TRUE(returns_while_held(gate, [&] { other.synchronize(); }));
  gate.open();
  EXPECT_EQ(read(other, b), std::vector<int>(1000, 2));
}

// current: [hold]--[a = 4]      without a stream: the current one of the array's device
TEST_P(FillOrder, without_a_stream_it_is_the_current_one_of_the_arrays_device) {
  weir::Stream current = free_stream(device(), "current");
  const weir::ScopedStream scope(current);
  auto array = weir::full<int>(100, 1);
  auto seen = weir::full<int>(weir::pinned, 100, 0);
  Gate gate;
  gate.hold(current);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::fill(array, 4); }));
  weir::copy(current, seen, array);
  EXPECT_TRUE(stays(device(), [&] { return seen[0] == 0; }));
  gate.open();
  current.synchronize();
  EXPECT_EQ(host_values(seen), std::vector<int>(100, 4));
}

// stream: [hold]--[values = 3]      pageable memory: the host waits its turn
TEST_P(FillOrder, pageable_memory_is_filled_in_order_when_the_call_returns) {
  weir::Stream stream(device());
  std::vector<int> values(100, 1);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::fill(stream, values, 3); }));
  EXPECT_EQ(values, std::vector<int>(100, 3));
}
