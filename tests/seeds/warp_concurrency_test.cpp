// Twins of the snippets in NVIDIA Warp's guide, chapter 4, "Concurrency": asynchronous operations, copies, streams.
// Those on events and synchronisation are in warp_synchronization_test.cpp, those on graphs in warp_graphs_test.cpp.
#include <gtest/gtest.h>

#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "warp_guide.hpp"

namespace {

using warp_guide::AddOne;
using warp_guide::all;
using warp_guide::n;
using weir_test::blocks_until_open;
using weir_test::fails_with;
using weir_test::Gate;
using weir_test::returns_while_held;

int do_cpu_work() {
  int sum = 0;
  for (int i = 0; i < 1000; ++i) sum += i;
  return sum;
}

class WarpConcurrency : public weir_test::AnyDevice {};
class WarpConcurrencyOfTwo : public weir_test::TwoDevices {};

// Asynchronous operations, kernel launches (W1): work goes on on the host while the kernel runs.
TEST_P(WarpConcurrency, a_kernel_launch_returns_before_the_kernel_has_finished) {
  auto a = weir::zeros<float>(device(), n);
  Gate gate;
  gate.hold(weir::get_stream(device()));

  weir::launch(device(), n, AddOne{}, weir::inout(a));
  EXPECT_EQ(do_cpu_work(), 499500);

  EXPECT_FALSE(weir::get_stream(device()).done());
  gate.open();
  EXPECT_EQ(a.to_host(), all(1));
}

// Asynchronous operations, kernel launches (W2): kernels of two devices run at the same time.
TEST_P(WarpConcurrencyOfTwo, kernels_on_different_devices_run_at_the_same_time) {
  auto a0 = weir::zeros<float>(first(), n);
  auto a1 = weir::zeros<float>(second(), n);
  Gate gate;
  gate.hold(weir::get_stream(first()));
  gate.hold(weir::get_stream(second()));

  weir::launch(first(), n, AddOne{}, weir::inout(a0));
  weir::launch(second(), n, AddOne{}, weir::inout(a1));
  EXPECT_EQ(do_cpu_work(), 499500);

  EXPECT_TRUE(weir_test::eventually([&] { return gate.begun() == 2; })) << "both kernels are running now";
  gate.open();
  EXPECT_EQ(a0.to_host(), all(1));
  EXPECT_EQ(a1.to_host(), all(1));
}

// Asynchronous operations, kernel launches (W3): a kernel on the CPU beside one on the device. There the launch on the
// CPU returns when its kernel is done; here it is asynchronous too.
TEST_P(WarpConcurrency, a_kernel_on_the_cpu_runs_while_the_device_is_busy) {
  weir::Stream on_cpu(weir::device("cpu"));
  auto a = weir::zeros<float>(device(), n);
  auto b = weir::zeros<float>(on_cpu, n);
  on_cpu.synchronize();
  Gate device_gate;
  Gate cpu_gate;
  device_gate.hold(weir::get_stream(device()));
  cpu_gate.hold(on_cpu);

  weir::launch(device(), n, AddOne{}, weir::inout(a));
  weir::launch(on_cpu, n, AddOne{}, weir::inout(b));

  EXPECT_FALSE(on_cpu.done()) << "the launch on the CPU returned before its kernel";
  cpu_gate.open();
  EXPECT_TRUE(returns_while_held(device_gate, [&] { on_cpu.synchronize(); }));
  device_gate.open();
  EXPECT_EQ(a.to_host(), all(1));
  EXPECT_EQ(b.to_host(), all(1));
}

// Array creation (W5): asynchronous, in the order of the device's current stream.
TEST_P(WarpConcurrency, creating_arrays_does_not_wait_for_the_device) {
  Gate gate;
  gate.hold(weir::get_stream(device()));

  auto a0 = weir::zeros<float>(device(), n);
  auto b0 = weir::ones<float>(device(), n);
  auto c0 = weir::full(device(), n, 42.0f);
  weir::launch(device(), n, AddOne{}, weir::inout(c0));

  EXPECT_FALSE(weir::get_stream(device()).done());
  gate.open();
  EXPECT_EQ(a0.to_host(), all(0));
  EXPECT_EQ(b0.to_host(), all(1));
  EXPECT_EQ(c0.to_host(), all(43));
}

// Array creation (W5): each device makes its arrays independently of the other.
TEST_P(WarpConcurrencyOfTwo, devices_create_their_arrays_independently) {
  Gate gate;
  gate.hold(weir::get_stream(first()));

  auto a0 = weir::zeros<float>(first(), n);
  auto b0 = weir::ones<float>(first(), n);
  auto a1 = weir::empty<float>(second(), n);
  auto b1 = weir::full(second(), n, 42.0f);

  EXPECT_TRUE(returns_while_held(gate, [&] { EXPECT_EQ(b1.to_host(), all(42)); })) << "the second device is not held";
  EXPECT_EQ(a1.size(), n);
  EXPECT_FALSE(weir::get_stream(first()).done());
  gate.open();
  EXPECT_EQ(a0.to_host(), all(0));
  EXPECT_EQ(b0.to_host(), all(1));
}

// Array copying (W6): copies between host and device are asynchronous if the host memory is pinned.
TEST_P(WarpConcurrency, copies_from_and_to_pinned_memory_are_asynchronous) {
  auto p = weir::zeros<float>(weir::pinned, n);
  auto q = weir::zeros<float>(weir::pinned, n);
  auto d = weir::zeros<float>(device(), n);
  Gate gate;
  gate.hold(weir::get_stream(device()));

  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::copy(d, p);  // host to device
    weir::copy(q, d);  // device to host
  }));
  p[0] = 7.0f;
  EXPECT_EQ(q[0], 0.0f);

  gate.open();
  weir::synchronize_device(device());
  EXPECT_EQ(q[0], 7.0f) << "the copies ran later, and read what was there then";
}

// Array copying (W6): from pageable memory a large copy is synchronous; to pageable memory every copy is.
TEST_P(WarpConcurrency, copies_from_and_to_pageable_memory_are_synchronous) {
  constexpr std::size_t large = (4 << 20) / sizeof(float);
  auto h = weir::full(weir::host, large, 3.0f);
  auto d = weir::zeros<float>(device(), large);
  const weir::StreamRef stream = weir::get_stream(device());
  {
    Gate gate;
    gate.hold(stream);
    EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, d, h); }));
  }
  auto back = weir::zeros<float>(weir::host, large);
  {
    Gate gate;
    gate.hold(stream);
    EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, back, d); }));
  }
  EXPECT_EQ(back[0], 3.0f);
  EXPECT_EQ(back[large - 1], 3.0f);
}

// Array copying (W7): a copy within one device never blocks the host.
TEST_P(WarpConcurrency, copies_within_a_device_are_asynchronous) {
  auto a = weir::ones<float>(device(), n);
  auto b = weir::empty<float>(device(), n);
  Gate gate;
  gate.hold(weir::get_stream(device()));

  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(b, a); }));
  EXPECT_FALSE(weir::get_stream(device()).done());

  gate.open();
  weir::synchronize_device(device());
  EXPECT_EQ(b.to_host(), all(1));
}

// Array copying (W8): between devices, on the destination's current stream, after the source's work.
TEST_P(WarpConcurrencyOfTwo, copies_between_devices_are_asynchronous) {
  auto a0 = weir::ones<float>(first(), n);
  auto a1 = weir::empty<float>(second(), n);
  weir::synchronize_device(first());
  Gate gate;
  gate.hold(weir::get_stream(second()));

  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(a1, a0); }));

  EXPECT_FALSE(weir::get_stream(second()).done()) << "the copy is in the destination's stream";
  EXPECT_TRUE(weir::get_stream(first()).done()) << "the source's stream has nothing to do with it";
  gate.open();
  weir::synchronize_device(second());
  EXPECT_EQ(a1.to_host(), all(1));
}

// Streams, creating streams (W9): on a device, or on the default device.
TEST_P(WarpConcurrency, a_stream_is_made_on_a_device_or_on_the_default_one) {
  const weir::Stream s1(device());
  const weir::Stream s2;
  EXPECT_EQ(s1.device(), device());
  EXPECT_EQ(s2.device(), device());
  EXPECT_FALSE(s1 == s2);
}
TEST_P(WarpConcurrencyOfTwo, a_scoped_device_decides_where_a_stream_is_made) {
  const weir::ScopedDevice outer(first());
  {
    const weir::ScopedDevice scope(second());
    EXPECT_EQ(weir::Stream().device(), second());
    EXPECT_EQ(weir::get_stream().device(), second());
  }
  EXPECT_EQ(weir::Stream().device(), first());
}

// Streams, creating streams (W10): a foreign handle can be wrapped where the backend has handles.
TEST_P(WarpConcurrency, a_native_stream_handle_can_be_wrapped_where_there_is_one) {
  weir::Stream stream(device());
  if (stream.native() == nullptr) {
    int object = 0;
    EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { (void)weir::wrap_stream(device(), &object); }));
    return;
  }
  const weir::Stream s3 = weir::wrap_stream(device(), stream.native());
  EXPECT_EQ(s3.native(), stream.native());
}

// Streams, using streams (W11): everything inside the block goes to the stream, and its device is the default one.
TEST_P(WarpConcurrency, a_scoped_stream_takes_the_calls_of_its_block) {
  weir::Stream stream(device());
  const weir::StreamRef before = weir::get_stream(device());
  Gate gate;
  gate.hold(stream);
  weir::Array<float> a;
  weir::Array<float> b;
  {
    const weir::ScopedStream scope(stream);
    EXPECT_EQ(weir::get_stream(), stream);
    a = weir::zeros<float>(n);
    b = weir::empty<float>(n);
    weir::launch(n, AddOne{}, weir::inout(a));
    weir::copy(b, a);
  }
  EXPECT_EQ(weir::get_stream(device()), before);
  EXPECT_EQ(a.stream(), stream);
  EXPECT_TRUE(returns_while_held(gate, [&] { before.synchronize(); })) << "none of it went to the previous stream";
  gate.open();
  EXPECT_EQ(b.to_host(), all(1));
}
TEST_P(WarpConcurrencyOfTwo, a_scoped_stream_includes_what_a_scoped_device_does) {
  const weir::ScopedDevice outer(first());
  weir::Stream stream(second());
  {
    const weir::ScopedStream scope(stream);
    EXPECT_EQ(weir::default_device(), second());
    EXPECT_EQ(weir::ones<float>(n).device(), second());
  }
  EXPECT_EQ(weir::default_device(), first());
}

// Streams, using streams (W11, C1): a transfer on one stream overlaps a computation on another.
//   compute_stream   [held kernel........................][AddOne]
//   transfer_stream        [b <- c][back <- b]
TEST_P(WarpConcurrency, computation_and_transfer_overlap_on_two_streams) {
  auto a = weir::zeros<float>(n);
  auto b = weir::empty<float>(n);
  auto c = weir::ones<float>(weir::pinned, n);
  auto back = weir::zeros<float>(weir::pinned, n);
  weir::Stream compute_stream;
  weir::Stream transfer_stream;
  Gate gate;

  {
    const weir::ScopedStream scope(compute_stream);
    gate.hold(weir::get_stream());
    weir::launch(a.size(), AddOne{}, weir::inout(a));
  }
  {
    const weir::ScopedStream scope(transfer_stream);
    weir::copy(b, c);
    weir::copy(back, b);
  }

  EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_stream(transfer_stream); }));
  EXPECT_EQ(back[0], 1.0f);
  EXPECT_EQ(back[n - 1], 1.0f);
  EXPECT_FALSE(compute_stream.done());
  gate.open();
  EXPECT_EQ(a.to_host(), all(1));
}

// Streams, using streams (W12): get_stream and set_stream, with a device and without.
TEST_P(WarpConcurrency, the_current_stream_can_be_read_and_set) {
  const weir::StreamRef s1 = weir::get_stream(device());
  const weir::StreamRef s2 = weir::get_stream();
  EXPECT_EQ(s1, s2);

  weir::Stream stream(device());
  weir::Stream other(device());
  weir::set_stream(stream, device());
  EXPECT_EQ(weir::get_stream(device()), stream);
  EXPECT_EQ(weir::zeros<float>(n).stream(), stream);
  weir::set_stream(other);
  EXPECT_EQ(weir::get_stream(), other);

  weir::set_stream(s1);
  EXPECT_EQ(weir::get_stream(device()), s1);
}

// Streams, synchronization (W13): synchronize_stream waits for one stream only.
TEST_P(WarpConcurrency, synchronizing_a_stream_leaves_the_others_running) {
  weir::Stream compute(device());
  weir::Stream readback(device());
  auto a = weir::ones<float>(readback, n);
  auto host = weir::zeros<float>(weir::pinned, n);
  Gate gate;
  gate.hold(compute);
  weir::copy(readback, host, a);

  EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_stream(readback); }));
  EXPECT_EQ(host[n - 1], 1.0f);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::synchronize_stream(compute); }));
}

}  // namespace

ON_EVERY_DEVICE(WarpConcurrency);
ON_EVERY_BACKEND(WarpConcurrencyOfTwo);
