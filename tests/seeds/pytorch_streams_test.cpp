// Twins of the questions and answers of "PyTorch CUDA streams introduction": parallel streams, prefetch, events,
// several devices.
//
// Not here: collectives (all-reduce, broadcast; P3), which the text only names.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::blocks_until_open;
using weir_test::error_of;
using weir_test::Gate;
using weir_test::returns_while_held;
using weir_test::stays;

constexpr std::size_t n = 10'007;

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> a, weir::View<const float> b,
                              weir::View<float> c) const {
    c[i] = a[i] + b[i];
  }
};
struct Multiply {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> a, weir::View<const float> b,
                              weir::View<float> c) const {
    c[i] = a[i] * b[i];
  }
};
/// Stands for the model: several operations on each element.
struct Forward {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> batch, weir::View<float> result) const {
    result[i] = batch[i] * batch[i] + 1.0f;
  }
};

std::vector<float> all(float value) { return std::vector<float>(n, value); }

class PytorchStreams : public weir_test::AnyDevice {};
class PytorchStreamsOfTwo : public weir_test::TwoDevices {};

// Basic concepts (P1): a stream is a queue that runs in the order of submission, asynchronously to the host.
TEST_P(PytorchStreams, a_stream_runs_what_was_submitted_in_order_and_later) {
  weir::Stream stream(device());
  const weir_test::Log log;
  Gate gate;
  gate.hold(stream);
  for (int i = 0; i < 10; ++i) log.note(stream, i);
  EXPECT_EQ(log.size(), 0);
  gate.open();
  stream.synchronize();
  EXPECT_EQ(log.values(), (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
}

// Basic concepts (P1, W9): operations without a stream run on the device's own one.
TEST_P(PytorchStreams, operations_without_a_stream_run_on_the_devices_own_stream) {
  const weir::StreamRef own = weir::get_stream(device());
  Gate gate;
  gate.hold(own);
  auto a = weir::ones<float>(device(), n);
  auto c = weir::empty<float>(device(), n);
  weir::launch(n, Add{}, weir::in(a), weir::in(a), weir::out(c));
  EXPECT_EQ(a.stream(), own);
  EXPECT_TRUE(stays(device(), [&] { return !own.done(); }));
  gate.open();
  EXPECT_EQ(c.to_host(), all(2));
}

// Parallel execution (P1): an addition and a multiplication that do not depend on each other, on two streams.
//   stream a   [held kernel....][sum = x + y]
//   stream b   [product = x * y]
TEST_P(PytorchStreams, independent_operations_run_on_two_streams) {
  weir::Stream stream_a(device());
  weir::Stream stream_b(device());
  auto x = weir::full(device(), n, 3.0f);
  auto y = weir::full(device(), n, 4.0f);
  auto sum = weir::empty<float>(device(), n);
  auto product = weir::empty<float>(device(), n);
  device().synchronize();

  Gate gate;
  gate.hold(stream_a);
  weir::launch(stream_a, n, Add{}, weir::in(x), weir::in(y), weir::out(sum));
  weir::launch(stream_b, n, Multiply{}, weir::in(x), weir::in(y), weir::out(product));
  EXPECT_TRUE(returns_while_held(gate, [&] { stream_b.synchronize(); }));
  EXPECT_FALSE(stream_a.done());

  gate.open();
  EXPECT_EQ(sum.to_host(), all(7));
  EXPECT_EQ(product.to_host(), all(12));
}

// Parallel execution (P1): operations that depend on each other give the right result on one stream.
TEST_P(PytorchStreams, dependent_operations_belong_on_one_stream) {
  weir::Stream stream(device());
  auto x = weir::full(stream, n, 3.0f);
  auto y = weir::empty<float>(stream, n);
  weir::launch(stream, n, Add{}, weir::in(x), weir::in(x), weir::out(y));
  weir::launch(stream, n, Multiply{}, weir::in(x), weir::in(y), weir::out(y));
  EXPECT_EQ(y.to_host(), all(18));
}

// Why synchronise: error checking (P2). A failure shows later than the call that caused it, and names that call.
TEST_P(PytorchStreams, an_asynchronous_failure_names_the_call_behind_it) {
  weir::Stream stream(device());
  const unsigned line = __LINE__ + 1;
  weir::host_call(stream, [] { throw std::runtime_error("bad batch"); });
  const auto a = weir::ones<float>(stream, n);  // returns, although its stream has failed or will

  const auto error = error_of([&] { stream.synchronize(); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->errc(), weir::Errc::host_function_failed);
  EXPECT_EQ(error->where().line(), line);
  EXPECT_EQ(std::string_view(error->where().file_name()), __FILE__);
  EXPECT_THROW(std::rethrow_exception(error->cause()), std::runtime_error);
}

// Data transfer (P1): the next batch is copied on stream A while the present one computes on stream B.
//   stream A   [copy 0][copy 1]
//   stream B          (event)[held kernel, forward 0](event)[forward 1]
TEST_P(PytorchStreams, the_next_batch_is_copied_while_this_one_computes) {
  weir::Stream a(device());
  weir::Stream b(device());
  auto host = weir::empty<float>(weir::pinned, {2, n});
  std::fill(host.begin(), host.begin() + n, 2.0f);
  std::fill(host.begin() + n, host.end(), 3.0f);
  auto batches = weir::empty<float>(a, {2, n});
  auto results = weir::empty<float>(b, {2, n});
  const auto row = [](const weir::Array<float>& array, std::size_t i) { return array.slice(i, i + 1).reshape(n); };

  Gate gate;
  for (std::size_t i = 0; i < 2; ++i) {
    weir::copy(a, row(batches, i), row(host, i));
    b.wait(a);
    if (i == 0) gate.hold(b);
    weir::launch(b, n, Forward{}, weir::in(row(batches, i)), weir::out(row(results, i)));
  }
  EXPECT_TRUE(returns_while_held(gate, [&] { a.synchronize(); })) << "batch 1 is there while batch 0 computes";
  EXPECT_FALSE(b.done());

  gate.open();
  std::vector<float> expected = all(5);
  expected.insert(expected.end(), n, 10.0f);
  EXPECT_EQ(results.to_host(), expected);
}

// Data transfer (P1): the whole loop with two buffers. Batch i + 2 overwrites the buffer of batch i, after its use.
TEST_P(PytorchStreams, many_batches_go_through_two_buffers) {
  constexpr std::size_t batch_count = 40;
  weir::Stream transfer(device());
  weir::Stream compute(device());
  auto input = weir::empty<float>(weir::pinned, {batch_count, n});
  auto output = weir::zeros<float>(weir::pinned, {batch_count, n});
  for (std::size_t batch = 0; batch < batch_count; ++batch) {
    std::fill_n(input.begin() + batch * n, n, static_cast<float>(batch));
  }

  std::array<weir::Array<float>, 2> buffer;
  std::array<weir::Array<float>, 2> result;
  std::array<weir::Event, 2> loaded;
  std::array<weir::Event, 2> used;
  for (std::size_t slot = 0; slot < 2; ++slot) {
    buffer[slot] = weir::empty<float>(transfer, n);
    result[slot] = weir::empty<float>(compute, n);
  }
  for (std::size_t batch = 0; batch < batch_count; ++batch) {
    const std::size_t slot = batch % 2;
    transfer.wait(used[slot]);
    weir::copy(transfer, buffer[slot], input.slice(batch, batch + 1).reshape(n));
    transfer.record(loaded[slot]);

    compute.wait(loaded[slot]);
    weir::launch(compute, n, Forward{}, weir::in(buffer[slot]), weir::out(result[slot]));
    weir::copy(compute, output.slice(batch, batch + 1).reshape(n), result[slot]);
    compute.record(used[slot]);
  }
  compute.synchronize();

  for (std::size_t batch = 0; batch < batch_count; ++batch) {
    const float expected = static_cast<float>(batch * batch) + 1.0f;
    const auto begin = output.begin() + batch * n;
    EXPECT_EQ(std::count(begin, begin + n, expected), static_cast<std::ptrdiff_t>(n)) << "batch " << batch;
  }
}

// Events, synchronisation (P2): stream B waits for an event of stream A, and the host for that event rather than for
// the whole device.
//   stream A   [held by first][c = a + b](event)[held by second]
//   stream B                             (event)[d = c * c]
TEST_P(PytorchStreams, an_event_waits_for_less_than_the_device) {
  weir::Stream stream_a(device());
  weir::Stream stream_b(device());
  auto a = weir::full(stream_a, n, 3.0f);
  auto c = weir::empty<float>(stream_a, n);
  auto d = weir::empty<float>(stream_b, n);
  Gate first;
  Gate second;
  first.hold(stream_a);
  weir::launch(stream_a, n, Add{}, weir::in(a), weir::in(a), weir::out(c));
  weir::Event event = stream_a.record();
  second.hold(stream_a);
  stream_b.wait(event);
  weir::launch(stream_b, n, Multiply{}, weir::in(c), weir::in(c), weir::out(d));

  EXPECT_TRUE(stays(device(), [&] { return !event.done() && !stream_b.done(); }));
  first.open();
  EXPECT_TRUE(returns_while_held(second, [&] { event.synchronize(); }));
  EXPECT_TRUE(returns_while_held(second, [&] { stream_b.synchronize(); }));
  EXPECT_TRUE(blocks_until_open(device(), second, [&] { device().synchronize(); }));
  EXPECT_EQ(d.to_host(), all(36));
}

// Events, measuring (P2): start, operation, end, wait for the end, elapsed time.
TEST_P(PytorchStreams, two_events_measure_an_operation) {
  const weir::StreamRef stream = weir::get_stream(device());
  auto a = weir::full(device(), n, 3.0f);
  auto c = weir::empty<float>(device(), n);
  weir::TimedEvent start(device());
  weir::TimedEvent end(device());
  device().synchronize();

  const auto host_start = std::chrono::steady_clock::now();
  stream.record(start);
  weir::launch(n, Multiply{}, weir::in(a), weir::in(a), weir::out(c));
  stream.record(end);
  end.synchronize();
  const weir::Milliseconds host_time = std::chrono::steady_clock::now() - host_start;

  const weir::Milliseconds time = weir::elapsed(start, end);
  EXPECT_GT(time.count(), 0.0f);
  EXPECT_LE(time.count(), 1.01f * host_time.count());
  EXPECT_EQ(c.to_host(), all(9));
}

// Several GPUs (P3): the current device decides where calls without a device or stream go.
TEST_P(PytorchStreamsOfTwo, the_current_device_can_be_set) {
  const weir::Device before = weir::default_device();
  weir::set_default_device(second());
  EXPECT_EQ(weir::ones<float>(n).device(), second());
  EXPECT_EQ(weir::Stream().device(), second());
  weir::set_default_device(first());
  EXPECT_EQ(weir::ones<float>(n).device(), first());
  weir::set_default_device(before);
}

// Several GPUs (P3): an event recorded on stream A of one device, waited for by stream B of another.
TEST_P(PytorchStreamsOfTwo, events_order_streams_of_different_devices) {
  weir::Stream stream_a(first());
  weir::Stream stream_b(second());
  auto a = weir::full(stream_a, n, 3.0f);
  auto b = weir::empty<float>(stream_b, n);
  Gate gate;
  gate.hold(stream_a);
  weir::launch(stream_a, n, Add{}, weir::in(a), weir::in(a), weir::out(a));
  weir::Event event = stream_a.record();

  stream_b.wait(event);
  weir::copy(stream_b, b, a);
  weir::launch(stream_b, n, Multiply{}, weir::in(b), weir::in(b), weir::out(b));

  EXPECT_TRUE(stays(second(), [&] { return !stream_b.done(); }));
  gate.open();
  stream_b.synchronize();
  EXPECT_EQ(b.to_host(), all(36));
}

// Several GPUs (P3): one device is synchronised, and the other goes on.
TEST_P(PytorchStreamsOfTwo, one_device_is_synchronized_without_the_other) {
  weir::Stream stream_a(first());
  weir::Stream stream_b(second());
  weir_test::Marker marker;
  Gate gate;
  gate.hold(stream_a);
  weir_test::mark(stream_b, marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { second().synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
  EXPECT_FALSE(stream_a.done());
}

// Several GPUs (P3): with peer access, a kernel of one device reads the other's memory, and copies go directly.
TEST_P(PytorchStreamsOfTwo, devices_exchange_data_directly_with_peer_access) {
  if (!weir::can_access_peer(second(), first())) GTEST_SKIP() << "these two devices have no peer access";
  weir::Stream stream_a(first());
  weir::Stream stream_b(second());
  auto a = weir::full(stream_a, n, 3.0f);
  auto b = weir::full(stream_b, n, 4.0f);
  auto sum = weir::empty<float>(stream_b, n);
  auto direct = weir::empty<float>(stream_b, n);

  weir::enable_peer_access(second(), first());
  stream_b.wait(stream_a);
  weir::launch(stream_b, n, Add{}, weir::in(a), weir::in(b), weir::out(sum));
  weir::copy(stream_b, direct, a);
  stream_b.synchronize();
  weir::disable_peer_access(second(), first());

  EXPECT_EQ(sum.to_host(), all(7));
  EXPECT_EQ(direct.to_host(), all(3));
}

}  // namespace

ON_EVERY_DEVICE(PytorchStreams);
ON_EVERY_BACKEND(PytorchStreamsOfTwo);
