// Copies between devices: asynchronous, direct or not, ordered by their own stream only (W8, C1, P3, R190, R192, R200).
#include "arrays_support.hpp"

using namespace weir_test;

namespace {

struct AddTo {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> from, weir::View<int> to) const { to[i] += from[i]; }
};

}  // namespace

class CopiesBetweenDevices : public TwoDevices {
 protected:
  static constexpr std::size_t n = std::size_t{1} << 20;
};
ON_EVERY_BACKEND(CopiesBetweenDevices);

namespace {

/// Lets copies and kernels of two devices reach each other's memory for a block.
class ScopedPeers {
 public:
  ScopedPeers(weir::Device from, weir::Device to) : from_(from), to_(to) { weir::enable_peer_access(from, to); }
  ~ScopedPeers() { weir::disable_peer_access(from_, to_); }
  ScopedPeers(const ScopedPeers&) = delete;
  ScopedPeers& operator=(const ScopedPeers&) = delete;

 private:
  weir::Device from_, to_;
};

}  // namespace

// R190
TEST_P(CopiesBetweenDevices, are_right_with_and_without_peer_access) {
  const auto round_trip = [&] {
    weir::Stream a(first());
    weir::Stream b(second());
    const auto source = weir::from(a, counted(n));
    auto target = weir::zeros<int>(b, n);
    auto back = weir::zeros<int>(a, n);
    b.wait(a);
    weir::copy(b, target, source);
    a.wait(b);
    weir::copy(a, back, target);
    return back.to_host();
  };
  EXPECT_EQ(round_trip(), counted(n));
  if (!weir::can_access_peer(first(), second())) GTEST_SKIP() << "no peer access";
  const ScopedPeers there(first(), second());
  const ScopedPeers back(second(), first());
  EXPECT_EQ(round_trip(), counted(n));
}

// W8:   first:  [hold]--[source = 0, 1, ..](e)
//       second:                            (wait e)[source -> target]      the host waits for nothing
TEST_P(CopiesBetweenDevices, are_asynchronous_and_wait_for_what_they_are_told_to) {
  weir::Stream a = free_stream(first(), "a");
  weir::Stream b = free_stream(second(), "b");
  auto source = weir::zeros<int>(a, n);
  auto target = weir::zeros<int>(b, n);
  Gate gate;
  gate.hold(a);
  weir::launch(a, n, Count{}, weir::out(source), 5);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    b.wait(a);
    weir::copy(b, target, source);
  }));
  EXPECT_TRUE(stays(second(), [&] { return !b.done(); }));
  gate.open();
  EXPECT_EQ(read(b, target), counted(n, 5));
}

// R192:   first:  [hold]
//         second:       [source -> target]     ordered by its stream only, whichever device that is of
TEST_P(CopiesBetweenDevices, are_ordered_by_their_own_stream_only) {
  for (const bool held_is_first : {true, false}) {
    weir::Stream held = free_stream(held_is_first ? first() : second(), "held");
    weir::Stream copies = free_stream(held_is_first ? second() : first(), "copies");
    const auto source = weir::from(weir::get_stream(first()), counted(n));
    auto target = weir::zeros<int>(weir::get_stream(second()), n);
    weir::synchronize();
    Gate gate;
    gate.hold(held);
    weir::copy(copies, target, source);
    EXPECT_TRUE(returns_while_held(gate, [&] { copies.synchronize(); }));
    gate.open();
    EXPECT_EQ(target.to_host(), counted(n));
  }
}

// C1:   held, first:   [kernel]---------------------------
//       held, second:  [kernel]---------------------------
//       between:              [a -> b]   finishes while both devices compute
TEST_P(CopiesBetweenDevices, overlap_kernels_of_both) {
  weir::Stream held_first = free_stream(first(), "held first");
  weir::Stream held_second = free_stream(second(), "held second");
  weir::Stream between = free_stream(second(), "between");
  const auto a = weir::from(weir::get_stream(first()), counted(n));
  auto b = weir::zeros<int>(weir::get_stream(second()), n);
  weir::synchronize();
  Gate gate;
  gate.hold(held_first);
  gate.hold(held_second);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 2; }));
  weir::copy(between, b, a);
  EXPECT_TRUE(returns_while_held(gate, [&] { between.synchronize(); }));
  gate.open();
  EXPECT_EQ(read(between, b), counted(n));
}

// A current stream of the destination is held: a copy without a stream is behind it (W8).
//   second, current: [hold]--[a -> b]
TEST_P(CopiesBetweenDevices, without_a_stream_are_on_the_current_one_of_the_destination) {
  weir::Stream current = free_stream(second(), "current");
  const auto a = weir::from(weir::get_stream(first()), counted(1000));
  auto b = weir::zeros<int>(weir::get_stream(second()), 1000);
  weir::synchronize();
  const weir::ScopedStream scope(current);
  Gate gate;
  gate.hold(current);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(b, a); }));
  EXPECT_TRUE(stays(second(), [&] { return !current.done(); }));
  gate.open();
  EXPECT_EQ(read(current, b), counted(1000));
}

// The source array ends while the copy from it is pending on the other device.
//   first:  [a = 0, 1, ..](e)             (free a)[others = -99]
//   second:              (wait e)[hold]--[a -> b]
TEST_P(CopiesBetweenDevices, keep_their_source_alive) {
  weir::Stream s = free_stream(first(), "s");
  weir::Stream t = free_stream(second(), "t");
  auto b = weir::zeros<int>(t, n);
  Gate gate;
  {
    auto a = weir::empty<int>(s, n);
    weir::launch(s, n, Count{}, weir::out(a), 0);
    t.wait(s);
    gate.hold(t);
    weir::copy(t, b, a);
  }
  std::vector<weir::Array<int>> others;
  for (int k = 0; k < 4; ++k) others.push_back(weir::full<int>(s, n, -99));
  gate.open();
  EXPECT_EQ(read(t, b), counted(n));
  for (const auto& other : others) EXPECT_EQ(read(s, other), std::vector<int>(n, -99));
}

// R200: reading an array back waits for the streams of its own device. (CUDA's cudaMemcpy also waits for those of the
// current device.)
//   first:  [hold]
//   second:       to_host() returns
TEST_P(CopiesBetweenDevices, and_reading_back_waits_for_the_arrays_device) {
  const weir::ScopedDevice scope(first());
  weir::Stream a(first());
  weir::Stream b(second());
  auto array = weir::full<int>(b, 100, 3);
  Gate of_first, of_second;
  of_first.hold(a);
  std::vector<int> values;
  EXPECT_TRUE(returns_while_held(of_first, [&] { values = array.to_host(); }));
  EXPECT_EQ(values, std::vector<int>(100, 3));
  of_second.hold(b);
  weir::fill(b, array, 4);
  EXPECT_TRUE(blocks_until_open(second(), of_second, [&] { values = array.to_host(); }));
  EXPECT_EQ(values, std::vector<int>(100, 4));
}

// P3: halves of a sum on two devices, joined by a copy and an event.
//   first:  [x = 0, 1, ..][x += 1]          (wait)[y -> z][x += z]
//   second: [y = 0, 1, ..][y += 2](e)
TEST_P(CopiesBetweenDevices, join_work_of_both_devices) {
  weir::Stream a(first());
  weir::Stream b(second());
  auto x = weir::from(a, counted(n));
  auto y = weir::from(b, counted(n));
  auto z = weir::empty<int>(a, n);
  weir::launch(a, n, AddValue{}, weir::inout(x), 1);
  weir::launch(b, n, AddValue{}, weir::inout(y), 2);
  a.wait(b);
  weir::copy(a, z, y);
  weir::launch(a, n, AddTo{}, weir::in(z), weir::inout(x));
  const std::vector<int> values = x.to_host();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], static_cast<int>(2 * i + 3));
}
