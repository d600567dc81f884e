// Twins of the snippets and rules of "CUDA asynchronous concurrency: CUDA streams in detail".
//
// Not here: CUDA_LAUNCH_BLOCKING=1 (C3), which needs a process of its own; overlap by the number of copy engines and
// the dependency checks of compute capability 3.0 (C6, C11, and C12 to the microsecond), which need a device model.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::blocks_until_open;
using weir_test::eventually;
using weir_test::fails_with;
using weir_test::Gate;
using weir_test::mark;
using weir_test::Marker;
using weir_test::returns_while_held;
using weir_test::stays;

constexpr std::size_t size = 5'003;

struct MyKernel {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> output, weir::View<const float> input) const {
    output[i] = 2.0f * input[i] + 1.0f;
  }
};

/// The memory of the document's examples: a pinned host array of two parts, and two device arrays.
struct Example {
  explicit Example(weir::Device device) {
    std::iota(host.begin(), host.end(), 0.0f);
    input_dev = weir::empty<float>(device, 2 * size);
    output_dev = weir::empty<float>(device, 2 * size);
    device.synchronize();
  }
  weir::Slice<float> host_part(std::size_t i) const { return host.slice(i * size, (i + 1) * size); }
  weir::Slice<float> input(std::size_t i) const { return input_dev.slice(i * size, (i + 1) * size); }
  weir::Slice<float> output(std::size_t i) const { return output_dev.slice(i * size, (i + 1) * size); }

  void upload(weir::StreamRef stream, std::size_t i) const { weir::copy(stream, input(i), host_part(i)); }
  void compute(weir::StreamRef stream, std::size_t i) const {
    weir::launch(stream, size, MyKernel{}, weir::out(output(i)), weir::in(input(i)));
  }
  void download(weir::StreamRef stream, std::size_t i) const { weir::copy(stream, host_part(i), output(i)); }

  bool right(std::size_t part) const {
    for (std::size_t i = part * size; i < (part + 1) * size; ++i) {
      if (host[i] != 2.0f * static_cast<float>(i) + 1.0f) return false;
    }
    return true;
  }

  weir::Array<float> host = weir::empty<float>(weir::pinned, 2 * size);
  weir::Array<float> input_dev;
  weir::Array<float> output_dev;
};

std::vector<weir::Stream> make_streams(weir::Device device, std::size_t count) {
  std::vector<weir::Stream> streams;
  for (std::size_t i = 0; i < count; ++i) streams.emplace_back(device);
  return streams;
}

class CudaStreams : public weir_test::AnyDevice {};
class CudaStreamsOfTwo : public weir_test::TwoDevices {};

// Asynchronous concurrency (C1): a computation on the device, copies both ways and within it, and the host, all at
// once.
//   compute    [held kernel.....................]
//   upload         [a <- p]
//   download       [q <- b]
//   internal       [c <- b]
TEST_P(CudaStreams, five_kinds_of_work_go_on_at_the_same_time) {
  auto streams = make_streams(device(), 4);
  auto p = weir::full(weir::pinned, size, 1.0f);
  auto q = weir::zeros<float>(weir::pinned, size);
  auto a = weir::empty<float>(device(), size);
  auto b = weir::full(device(), size, 2.0f);
  auto c = weir::empty<float>(device(), size);
  device().synchronize();

  Gate gate;
  gate.hold(streams[0]);
  weir::copy(streams[1], a, p);
  weir::copy(streams[2], q, b);
  weir::copy(streams[3], c, b);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; })) << "the computation is going on";
  for (std::size_t i = 1; i < 4; ++i) EXPECT_TRUE(returns_while_held(gate, [&] { streams[i].synchronize(); }));
  EXPECT_EQ(q[size - 1], 2.0f);
  EXPECT_FALSE(streams[0].done());

  gate.open();
  EXPECT_EQ(a.to_host(), std::vector<float>(size, 1));
  EXPECT_EQ(c.to_host(), std::vector<float>(size, 2));
}

// Asynchronous concurrency (C1): the sixth kind, a copy between devices, while both compute.
TEST_P(CudaStreamsOfTwo, a_copy_between_devices_goes_on_while_both_compute) {
  weir::Stream compute0(first());
  weir::Stream compute1(second());
  weir::Stream transfer(second());
  auto from = weir::full(first(), size, 3.0f);
  auto to = weir::empty<float>(transfer, size);
  auto seen = weir::zeros<float>(weir::pinned, size);
  first().synchronize();

  Gate gate;
  gate.hold(compute0);
  gate.hold(compute1);
  weir::copy(transfer, to, from);
  weir::copy(transfer, seen, to);
  EXPECT_TRUE(returns_while_held(gate, [&] { transfer.synchronize(); }));
  EXPECT_EQ(seen[size - 1], 3.0f);
}

// Concurrent execution between host and device (C2): what returns before the device has done it.
TEST_P(CudaStreams, launches_copies_and_fills_return_before_they_are_done) {
  weir::Stream stream(device());
  std::vector<float> small((64 << 10) / sizeof(float), 5.0f);  // 64 KiB of pageable memory
  auto pinned = weir::zeros<float>(weir::pinned, small.size());
  auto a = weir::zeros<float>(device(), small.size());
  auto b = weir::zeros<float>(device(), small.size());
  device().synchronize();

  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    weir::copy(stream, a, small);                                               // small, from pageable memory
    weir::launch(stream, small.size(), MyKernel{}, weir::out(b), weir::in(a));  // a launch
    weir::copy(stream, a, b);                                                   // within the device
    weir::copy(stream, pinned, a);                                              // "Async", pinned
    weir::fill(stream, b, 9.0f);                                                // a fill
  }));
  small.assign(small.size(), 0.0f);  // what was to be copied has been taken
  EXPECT_EQ(pinned[0], 0.0f);

  gate.open();
  stream.synchronize();
  EXPECT_EQ(pinned[small.size() - 1], 11.0f);
  EXPECT_EQ(b.to_host().back(), 9.0f);
}

// Concurrent execution between host and device (C4): an asynchronous copy to pageable memory is synchronous in effect.
TEST_P(CudaStreams, a_copy_to_pageable_memory_is_synchronous) {
  weir::Stream stream(device());
  auto a = weir::full(stream, size, 4.0f);
  std::vector<float> pageable(size);
  Gate gate;
  gate.hold(stream);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { weir::copy(stream, pageable, a); }));
  EXPECT_EQ(pageable, std::vector<float>(size, 4.0f)) << "the values are there when the call returns";
}

// Concurrent kernel execution, overlap of transfer and execution (C5): the properties that tell what a device can do.
TEST_P(CudaStreams, a_device_tells_what_it_can_overlap) {
  const weir::DeviceProperties& properties = device().properties();
  EXPECT_GE(properties.async_engine_count, 0);
  EXPECT_GE(properties.max_resident_kernels, 1);
  EXPECT_GE(properties.compute_capability.major, on("cuda") ? 1 : 0);
  if (!properties.concurrent_kernels) return;

  EXPECT_GE(properties.max_resident_kernels, 2);
  auto streams = make_streams(device(), 2);
  Gate gate;
  gate.hold(streams[0]);
  gate.hold(streams[1]);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 2; })) << "two kernels run at the same time";
}

// Creation and destruction (C1, C7): copy, kernel, copy in each of two streams, which are destroyed with the work
// pending.
TEST_P(CudaStreams, destroying_streams_loses_no_work) {
  const Example example(device());
  auto stream = make_streams(device(), 2);
  Gate gate;
  for (std::size_t i = 0; i < 2; ++i) {
    gate.hold(stream[i]);
    example.upload(stream[i], i);
    example.compute(stream[i], i);
    example.download(stream[i], i);
  }
  EXPECT_TRUE(returns_while_held(gate, [&] { stream.clear(); }));
  EXPECT_FALSE(example.right(0) || example.right(1)) << "nothing has run";

  gate.open();
  device().synchronize();
  EXPECT_TRUE(example.right(0));
  EXPECT_TRUE(example.right(1));
}

// Overlapping behaviour (C12): depth first, one loop of copy, kernel, copy. The second stream does not wait for the
// first.
//   stream[0]   [held][copy][kernel][copy]
//   stream[1]         [copy][kernel][copy]
TEST_P(CudaStreams, depth_first_issue_keeps_streams_independent) {
  const Example example(device());
  auto stream = make_streams(device(), 2);
  Gate gate;
  gate.hold(stream[0]);
  for (std::size_t i = 0; i < 2; ++i) {
    example.upload(stream[i], i);
    example.compute(stream[i], i);
    example.download(stream[i], i);
  }
  EXPECT_TRUE(returns_while_held(gate, [&] { stream[1].synchronize(); }));
  EXPECT_TRUE(example.right(1));
  EXPECT_FALSE(example.right(0));

  gate.open();
  stream[0].synchronize();
  EXPECT_TRUE(example.right(0));
}

// Overlapping behaviour (C12): breadth first, three loops. The copy of stream[1] overlaps the kernel of stream[0].
//   stream[0]   [copy][held kernel........][kernel][copy]
//   stream[1]   [copy]             [kernel][copy]
TEST_P(CudaStreams, breadth_first_issue_overlaps_a_copy_with_a_kernel) {
  const Example example(device());
  auto stream = make_streams(device(), 2);
  Gate gate;
  for (std::size_t i = 0; i < 2; ++i) {
    example.upload(stream[i], i);
    if (i == 0) gate.hold(stream[0]);
  }
  for (std::size_t i = 0; i < 2; ++i) example.compute(stream[i], i);
  for (std::size_t i = 0; i < 2; ++i) example.download(stream[i], i);

  EXPECT_TRUE(returns_while_held(gate, [&] { stream[1].synchronize(); }));
  EXPECT_TRUE(example.right(1));
  gate.open();
  stream[0].synchronize();
  EXPECT_TRUE(example.right(0));
}

// CUDA streams (C9): the commands of a stream run in order, also those that several host threads issue.
TEST_P(CudaStreams, a_stream_runs_the_commands_of_several_threads_in_order) {
  constexpr int each = 50;
  weir::Stream stream(device());
  const weir_test::Log log;
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < each; ++i) log.note(stream, t * each + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  stream.synchronize();

  int next[2] = {0, each};
  for (int value : log.values()) {
    int& expected = next[value / each];
    EXPECT_EQ(value, expected);
    ++expected;
  }
  EXPECT_EQ(log.size(), 2 * each);
}

// Default stream (C8): the legacy stream is one for all threads; the per-thread stream is a regular one of each thread.
TEST_P(CudaStreams, the_legacy_stream_is_shared_and_the_per_thread_stream_is_not) {
  const weir::StreamRef legacy = weir::legacy_stream(device());
  const weir::StreamRef own = weir::per_thread_stream(device());
  EXPECT_TRUE(own.blocking());
  EXPECT_FALSE(own == legacy);
  EXPECT_EQ(weir::per_thread_stream(device()), own);

  Marker marker;
  Gate gate;
  gate.hold(own);
  std::thread([&] {
    EXPECT_EQ(weir::legacy_stream(device()), legacy);
    const weir::StreamRef other = weir::per_thread_stream(device());
    EXPECT_FALSE(other == own);
    mark(other, marker);
    EXPECT_TRUE(returns_while_held(gate, [&] { other.synchronize(); }));
  }).join();
  EXPECT_EQ(marker.value(), 1) << "the two threads' streams are independent";
}

// Default stream (C8): commands of the default stream run in order.
TEST_P(CudaStreams, the_default_stream_runs_in_order) {
  const Example example(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  for (std::size_t i = 0; i < 2; ++i) {
    example.upload(legacy, i);
    example.compute(legacy, i);
    example.download(legacy, i);
  }
  legacy.synchronize();
  EXPECT_TRUE(example.right(0));
  EXPECT_TRUE(example.right(1));
}

// Explicit synchronisation (C9): the device waits for the streams of all host threads.
TEST_P(CudaStreams, device_synchronize_waits_for_streams_of_all_threads) {
  Gate gate;
  Marker marker;
  std::thread([&] {
    weir::Stream of_thread(device(), {.blocking = false});
    gate.hold(of_thread);
    mark(of_thread, marker);
  }).join();
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { device().synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
}

// Explicit synchronisation (C9): a stream is waited for, or asked, and other streams go on.
TEST_P(CudaStreams, stream_synchronize_and_query_concern_one_stream) {
  auto stream = make_streams(device(), 2);
  Gate gate;
  Marker marker;
  gate.hold(stream[0]);
  mark(stream[1], marker);

  EXPECT_TRUE(returns_while_held(gate, [&] { stream[1].synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(stream[1].done());
  EXPECT_FALSE(stream[0].done());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { stream[0].synchronize(); }));
  EXPECT_TRUE(stream[0].done());
}

// Explicit synchronisation (C9): a wait for an event delays what comes after the wait, and nothing before it.
TEST_P(CudaStreams, a_wait_for_an_event_delays_later_commands_only) {
  auto stream = make_streams(device(), 2);
  Gate gate;
  Marker before;
  Marker after;
  gate.hold(stream[0]);
  weir::Event event = stream[0].record();

  mark(stream[1], before);
  EXPECT_TRUE(returns_while_held(gate, [&] { stream[1].wait(event); }));
  mark(stream[1], after);

  EXPECT_TRUE(eventually([&] { return before.value() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return after.value() == 0; }));
  gate.open();
  stream[1].synchronize();
  EXPECT_EQ(after.value(), 1);
}

// Implicit synchronisation (C10): a command of the NULL stream between two streams' commands keeps them apart.
//   stream[0]   [held]
//   NULL              [mark]
//   stream[1]               [mark]
TEST_P(CudaStreams, a_command_of_the_null_stream_separates_two_streams) {
  auto stream = make_streams(device(), 2);
  Gate gate;
  weir_test::Log log;
  gate.hold(stream[0]);
  log.note(weir::legacy_stream(device()), 1);
  log.note(stream[1], 2);

  EXPECT_TRUE(stays(device(), [&] { return log.size() == 0; }));
  gate.open();
  device().synchronize();
  EXPECT_EQ(log.values(), (std::vector<int>{1, 2}));
}

// Implicit synchronisation (C10): the text's other four operations separated streams on old devices. They no longer do
// (R43, R55, R57, R64): allocations, fills and copies within the device neither wait nor make others wait.
TEST_P(CudaStreams, allocations_fills_and_copies_do_not_separate_streams) {
  const std::function<void(weir::StreamRef)> operations[] = {
      [](weir::StreamRef) { (void)weir::empty<float>(weir::pinned, size); },
      [](weir::StreamRef stream) { (void)weir::empty<float>(stream, size); },
      [](weir::StreamRef stream) { (void)weir::zeros<float>(stream, size); },
      [](weir::StreamRef stream) { (void)weir::zeros<float>(stream, size).clone(stream); }};
  for (const auto& operation : operations) {
    auto stream = make_streams(device(), 3);
    Gate gate;
    Marker marker;
    gate.hold(stream[0]);
    EXPECT_TRUE(returns_while_held(gate, [&] { operation(stream[2]); }));
    mark(stream[1], marker);
    EXPECT_TRUE(returns_while_held(gate, [&] { stream[1].synchronize(); }));
    EXPECT_EQ(marker.value(), 1);
  }
}

// Host functions (C13): called after all earlier commands of their stream, and before all later ones.
TEST_P(CudaStreams, host_functions_run_in_the_order_of_their_stream) {
  const Example example(device());
  auto stream = make_streams(device(), 2);
  weir_test::Log log;
  std::vector<int> seen(2);
  Gate inside;
  for (std::size_t i = 0; i < 2; ++i) {
    example.upload(stream[i], i);
    example.compute(stream[i], i);
    example.download(stream[i], i);
    weir::host_call(stream[i], [&example, &seen, i] { seen[i] = example.right(i) ? 1 : 0; });
    if (i == 0) inside.hold_by_host_call(stream[i]);
    log.note(stream[i], static_cast<int>(i));
  }
  EXPECT_TRUE(eventually([&] { return inside.begun() == 1; }));
  EXPECT_EQ(seen[0], 1) << "the copy was finished when the function was called";
  EXPECT_TRUE(stays(device(), [&] { return !stream[0].done(); })) << "the next command waits for the function";

  inside.open();
  device().synchronize();
  EXPECT_EQ(seen, (std::vector<int>{1, 1}));
  EXPECT_EQ(log.size(), 2);
}

// Host functions (C13): they must not call the API. Here that is an error that names the call, not a deadlock.
TEST_P(CudaStreams, a_call_inside_a_host_function_is_refused) {
  weir::Stream stream(device());
  Marker refused;
  weir::host_call(stream, [&] {
    const auto error = weir_test::error_of([&] { stream.synchronize(); });
    if (error && error->errc() == weir::Errc::not_permitted &&
        std::string(error->what()).find("synchronize") != std::string::npos) {
      refused.set(1);
    }
  });
  stream.synchronize();
  EXPECT_EQ(refused.value(), 1);

  weir::host_call(stream, [&] { weir::launch(stream, 1, weir_test::WriteMark{}, refused.word(), 2); });
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { stream.synchronize(); }));
  EXPECT_EQ(refused.value(), 1) << "the launch did not happen";
}

// Stream priorities (C14): the range is read, and streams are made with its two ends.
TEST_P(CudaStreams, streams_are_made_with_the_greatest_and_the_least_priority) {
  const auto [priority_low, priority_high] = device().properties().stream_priorities;
  EXPECT_LE(priority_high, priority_low) << "lower numbers are higher priorities";
  weir::Stream st_high(device(), {.priority = priority_high, .blocking = false});
  weir::Stream st_low(device(), {.priority = priority_low, .blocking = false});
  EXPECT_EQ(st_high.priority(), priority_high);
  EXPECT_EQ(st_low.priority(), priority_low);
  EXPECT_FALSE(st_high.blocking());

  Marker marker(2);
  mark(st_low, marker, 1, 0);
  mark(st_high, marker, 1, 1);
  device().synchronize();
  EXPECT_EQ(marker.value(0) + marker.value(1), 2);
}

}  // namespace

ON_EVERY_DEVICE(CudaStreams);
ON_EVERY_BACKEND(CudaStreamsOfTwo);
