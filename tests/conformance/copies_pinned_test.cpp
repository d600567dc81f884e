// Copies within the device and with pinned memory never hold the host, and overlap other work (C1, W7, R32, R35, R39,
// R41, R42, R49 to R51, R53).
// Left out: R46 (copy directions that contradict the pointers: directions are found, not given), R48 (past the end of
// memory: in tests/errors), R52 (opposite copies overlap: a matter of time on GPUs with two copy engines).
#include "arrays_support.hpp"

using namespace weir_test;

class AsynchronousCopies : public AnyDevice {
 protected:
  static constexpr std::size_t n = std::size_t{1} << 20;  // 4 MiB: more than pageable memory gets away with
};
ON_EVERY_DEVICE(AsynchronousCopies);

// R35:   stream: [hold]--[source -> a]     the source is read when the copy runs
TEST_P(AsynchronousCopies, from_pinned_memory_read_it_when_they_run) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, n);
  auto source = weir::full<int>(weir::pinned, n, 1);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, array, source); }));
  std::fill(source.begin(), source.end(), 2);
  gate.open();
  EXPECT_EQ(array.to_host(), std::vector<int>(n, 2));
}

// R39:   stream: [hold]--[a -> target]
TEST_P(AsynchronousCopies, to_pinned_memory_arrive_in_stream_order) {
  weir::Stream stream(device());
  const auto array = weir::full<int>(stream, n, 5);
  auto target = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, target, array); }));
  EXPECT_EQ(host_values(target), std::vector<int>(n, 0));
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(target), std::vector<int>(n, 5));
}

// R41:   stream: [hold]--[source -> target]     CUDA would wait here; Weir does not
TEST_P(AsynchronousCopies, between_pinned_memories_do_not_hold_the_host) {
  if (!on("cpu")) GTEST_SKIP() << "host copies in a CUDA stream are the driver's, and synchronous (R41)";
  weir::Stream stream(device());
  auto source = weir::full<int>(weir::pinned, n, 1);
  auto target = weir::zeros<int>(weir::pinned, n);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, target, source); }));
  EXPECT_EQ(host_values(target), std::vector<int>(n, 0));
  std::fill(source.begin(), source.end(), 2);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(target), std::vector<int>(n, 2));
}

// W7, R42:   stream: [hold]--[a -> b]
TEST_P(AsynchronousCopies, within_the_device_do_not_hold_the_host) {
  weir::Stream stream(device());
  const auto a = weir::full<int>(stream, n, 3);
  auto b = weir::zeros<int>(stream, n);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, b, a); }));
  EXPECT_FALSE(stream.done());
  gate.open();
  EXPECT_EQ(b.to_host(), std::vector<int>(n, 3));
}

// R32:   stream: [hold]---------
//        legacy:        [a -> b]
TEST_P(AsynchronousCopies, within_the_device_on_the_legacy_stream_do_not_hold_the_host) {
  weir::Stream stream(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const auto a = weir::full<int>(stream, n, 3);
  auto b = weir::zeros<int>(stream, n);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(legacy, b, a); }));
  EXPECT_TRUE(stays(device(), [&] { return !legacy.done(); }));
  gate.open();
  EXPECT_EQ(b.to_host(), std::vector<int>(n, 3));
}

// R49:   stream: [hold]--[pitched pinned -> a][a -> pitched pinned]
TEST_P(AsynchronousCopies, of_strided_parts_do_not_hold_the_host) {
  weir::Stream stream(device());
  auto array = weir::zeros<int>(stream, {100, 64});
  auto source = weir::full<int>(weir::pinned, {100, 100}, 4);
  auto target = weir::zeros<int>(weir::pinned, {100, 200});
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::copy(stream, array, source.slice({{0, 100}, {10, 74}}));
    weir::copy(stream, target.slice({{0, 100}, {0, 128, 2}}), array);
  }));
  const auto at = target.host_view();
  EXPECT_EQ(at(0, 0), 0);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(at(0, 0), 4);
  EXPECT_EQ(at(0, 1), 0);
  EXPECT_EQ(at(99, 126), 4);
  EXPECT_EQ(at(99, 128), 0);
}

// C1, R50, R51:   held:  [kernel]-------------------------------------
//                 up:      [pinned -> a]          all finish while the kernel is running,
//                 down:    [b -> pinned]          and so does the host
//                 within:  [b -> c]
//                 fill:    [d = 4]
TEST_P(AsynchronousCopies, of_every_direction_overlap_a_kernel_and_the_host) {
  weir::Stream held = free_stream(device(), "held");
  weir::Stream up = free_stream(device(), "up");
  weir::Stream down = free_stream(device(), "down");
  weir::Stream within = free_stream(device(), "within");
  weir::Stream filled = free_stream(device(), "filled");
  const auto source = weir::full<int>(weir::pinned, n, 1);
  auto target = weir::zeros<int>(weir::pinned, n);
  auto a = weir::zeros<int>(up, n);
  auto b = weir::full<int>(up, n, 2);
  auto c = weir::zeros<int>(up, n);
  auto d = weir::zeros<int>(up, n);
  up.synchronize();
  Gate gate;
  gate.hold(held);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  weir::copy(up, a, source);
  weir::copy(down, target, b);
  weir::copy(within, c, b);
  weir::fill(filled, d, 4);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (weir::StreamRef each :
         {weir::StreamRef(up), weir::StreamRef(down), weir::StreamRef(within), weir::StreamRef(filled)}) {
      each.synchronize();
    }
  }));
  EXPECT_FALSE(held.done());
  gate.open();
  EXPECT_EQ(host_values(target), std::vector<int>(n, 2));
  EXPECT_EQ(read(up, a), std::vector<int>(n, 1));
  EXPECT_EQ(read(up, c), std::vector<int>(n, 2));
  EXPECT_EQ(read(up, d), std::vector<int>(n, 4));
}

// R53:   stream: [kernel writes the count, and waits for the host's word][sees it]
TEST_P(AsynchronousCopies, pinned_memory_is_shared_with_a_running_kernel) {
  weir::Stream stream(device());
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; })) << "the kernel's write does not arrive while it runs";
  EXPECT_FALSE(stream.done());
  gate.open();
  stream.synchronize();
}

// stream: [a -> b][b += 1][b -> c][c += 1][c -> pinned]  with the gate in front
TEST_P(AsynchronousCopies, and_kernels_of_one_stream_take_turns) {
  weir::Stream stream(device());
  const auto a = weir::from(stream, counted(10000));
  auto b = weir::empty<int>(stream, 10000);
  auto c = weir::empty<int>(stream, 10000);
  auto result = weir::empty<int>(weir::pinned, 10000);
  Gate gate;
  gate.hold(stream);
  weir::copy(stream, b, a);
  weir::launch(stream, 10000, AddValue{}, weir::inout(b), 1);
  weir::copy(stream, c, b);
  weir::launch(stream, 10000, AddValue{}, weir::inout(c), 1);
  weir::copy(stream, result, c);
  weir::fill(stream, c, -1);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(host_values(result), counted(10000, 2));
}

// R47:   stream: [hold]     nothing to copy: no waiting, whatever the memory
TEST_P(AsynchronousCopies, of_nothing_do_nothing_and_wait_for_nothing) {
  weir::Stream stream(device());
  const auto array = weir::from(stream, counted(10));
  std::vector<int> none;
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::copy(stream, none, none);
    weir::copy(stream, none, array.slice(3, 3));
    weir::copy(stream, array.slice(0, 0), none);
    weir::copy(stream, weir::View<int>(), weir::View<const int>());
    weir::copy(none, array.slice(1, 1));
  }));
  gate.open();
  EXPECT_EQ(array.to_host(), counted(10));
}
