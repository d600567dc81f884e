// Twins of the snippets in NVIDIA Warp's guide, chapter 4, "Concurrency": events, the default stream, explicit streams,
// synchronisation. The rest is in warp_concurrency_test.cpp and warp_graphs_test.cpp.
#include <gtest/gtest.h>

#include <functional>
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
using weir_test::stays;

class WarpSynchronization : public weir_test::AnyDevice {};
class WarpSynchronizationOfTwo : public weir_test::TwoDevices {};

// Streams, events (W14): made on a device, or on the default device.
TEST_P(WarpSynchronization, an_event_is_made_on_a_device_or_on_the_default_one) {
  const weir::Event e1(device());
  const weir::Event e2;
  EXPECT_EQ(e1.device(), device());
  EXPECT_EQ(e2.device(), device());
}

// Makes stream2 wait for stream1 by `order`, and expects that it does so without holding up the host.
//   stream1   [held kernel][a += 1]
//   stream2                        [b <- a][b += 1]
void expect_ordered(weir::Device device, const std::function<void(weir::StreamRef, weir::StreamRef)>& order) {
  weir::Stream stream1(device);
  weir::Stream stream2(device);
  auto a = weir::zeros<float>(stream1, n);
  auto b = weir::zeros<float>(stream2, n);
  Gate gate;
  gate.hold(stream1);
  weir::launch(stream1, n, AddOne{}, weir::inout(a));

  EXPECT_TRUE(returns_while_held(gate, [&] { order(stream1, stream2); }));
  weir::copy(stream2, b, a);
  weir::launch(stream2, n, AddOne{}, weir::inout(b));

  EXPECT_TRUE(stays(device, [&] { return !stream2.done(); }));
  gate.open();
  EXPECT_EQ(b.to_host(), all(2));
}

// Streams, events (W14): stream1 records, stream2 waits.
TEST_P(WarpSynchronization, a_stream_waits_for_an_event_of_another) {
  expect_ordered(device(), [this](weir::StreamRef stream1, weir::StreamRef stream2) {
    weir::Event event(device());
    stream1.record(event);
    stream2.wait(event);
  });
}
// Streams, events (W14): record without an event makes one and returns it.
TEST_P(WarpSynchronization, record_without_an_event_returns_one) {
  expect_ordered(device(), [](weir::StreamRef stream1, weir::StreamRef stream2) {
    weir::Event event = stream1.record();
    stream2.wait(event);
  });
}
// Streams, events (W14): recording and waiting in one call.
TEST_P(WarpSynchronization, a_stream_waits_for_another_stream) {
  expect_ordered(device(), [](weir::StreamRef stream1, weir::StreamRef stream2) { stream2.wait(stream1); });
}
// Streams, events (W14): the free functions act on the current stream of the default device.
TEST_P(WarpSynchronization, free_functions_record_and_wait_on_the_current_stream) {
  expect_ordered(device(), [](weir::StreamRef stream1, weir::StreamRef stream2) {
    const weir::StreamRef before = weir::get_stream();
    weir::Event event;
    weir::set_stream(stream1);
    weir::record_event(event);
    weir::set_stream(stream2);
    weir::wait_event(event);
    weir::set_stream(before);
  });
  expect_ordered(device(), [](weir::StreamRef stream1, weir::StreamRef stream2) {
    const weir::StreamRef before = weir::get_stream();
    weir::set_stream(stream2);
    weir::wait_stream(stream1);
    weir::set_stream(before);
  });
}
// Streams, events (W14): an event is recorded on a stream of its own device, and waited for by a stream of any.
TEST_P(WarpSynchronizationOfTwo, an_event_is_recorded_on_its_own_device_and_waited_for_on_any) {
  weir::Stream stream0(first());
  weir::Stream stream1(second());
  weir::Event event(first());
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { stream1.record(event); }, {first().name(), second().name()}));

  Gate gate;
  weir_test::Marker marker;
  gate.hold(stream0);
  stream0.record(event);
  stream1.wait(event);
  weir_test::mark(stream1, marker);
  EXPECT_TRUE(stays(second(), [&] { return marker.value() == 0; }));
  gate.open();
  stream1.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

// Streams, events (W14): the producer copies, the consumer waits for that copy and not for the producer's other work.
//   producer   [held kernel][a <- b](event)[other work, held]
//   consumer   [other work]        (event)[a += 1]
TEST_P(WarpSynchronization, a_consumer_waits_for_the_producers_copy_only) {
  auto a = weir::empty<float>(n);
  auto b = weir::ones<float>(weir::pinned, n);
  auto seen = weir::zeros<float>(weir::pinned, n);
  weir::Stream producer_stream;
  weir::Stream consumer_stream;
  Gate before_copy;
  Gate other_producer_work;
  weir_test::Marker other_consumer_work;
  weir::Event event;
  {
    const weir::ScopedStream scope(producer_stream);
    before_copy.hold(weir::get_stream());
    weir::copy(a, b);
    event = weir::record_event();
    other_producer_work.hold(weir::get_stream());
  }
  {
    const weir::ScopedStream scope(consumer_stream);
    weir_test::mark(weir::get_stream(), other_consumer_work);
    weir::wait_event(event);
    weir::launch(a.size(), AddOne{}, weir::inout(a));
    weir::copy(seen, a);
  }
  EXPECT_TRUE(weir_test::eventually([&] { return other_consumer_work.value() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return !consumer_stream.done(); }));

  before_copy.open();
  EXPECT_TRUE(returns_while_held(other_producer_work, [&] { consumer_stream.synchronize(); }));
  EXPECT_EQ(seen[0], 2.0f);
  EXPECT_EQ(seen[n - 1], 2.0f);
}

// Streams, events (W13): the host waits for the first readback while the second is still to come.
TEST_P(WarpSynchronization, synchronizing_an_event_lets_later_work_go_on) {
  weir::Array<float> a_host;
  weir::Array<float> b_host;
  {
    const weir::ScopedDevice scope("cpu");
    a_host = weir::empty<float>(weir::pinned, n);
    b_host = weir::zeros<float>(weir::pinned, n);
  }
  const weir::StreamRef stream = weir::get_stream();
  Gate gate;

  auto a = weir::full(n, 17.0f);
  weir::copy(a_host, a);
  weir::Event a_event = stream.record();

  gate.hold(stream);
  auto b = weir::full(n, 42.0f);
  weir::copy(b_host, b);
  weir::Event b_event = stream.record();

  EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_event(a_event); }));
  EXPECT_EQ(std::vector<float>(a_host.begin(), a_host.end()), all(17));
  EXPECT_FALSE(b_event.done());
  EXPECT_EQ(b_host[0], 0.0f);

  gate.open();
  weir::synchronize_event(b_event);
  EXPECT_EQ(std::vector<float>(b_host.begin(), b_host.end()), all(42));
}

// The CUDA default stream (W15): reading back for convenience waits for all blocking streams by itself.
TEST_P(WarpSynchronization, reading_an_array_back_needs_no_synchronization) {
  weir::Stream stream1(device());
  weir::Stream stream2(device());
  Gate gate;
  gate.hold(stream1);
  gate.hold(stream2);
  weir::Array<float> a;
  weir::Array<float> b;
  {
    const weir::ScopedStream scope(stream1);
    a = weir::zeros<float>(n);
  }
  {
    const weir::ScopedStream scope(stream2);
    b = weir::ones<float>(n);
  }
  std::vector<float> a_values;
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { a_values = a.to_host(); }));
  EXPECT_EQ(a_values, all(0));
  EXPECT_EQ(b.to_host(), all(1));
}

// Explicit streams arguments (W16): the given stream is used, whatever the current one does.
TEST_P(WarpSynchronization, a_launch_takes_the_stream_it_is_given) {
  weir::Stream my_stream(device());
  auto a = weir::zeros<float>(my_stream, n);
  auto host = weir::zeros<float>(weir::pinned, n);
  Gate gate;
  gate.hold(weir::get_stream(device()));

  weir::launch(my_stream, n, AddOne{}, weir::inout(a));
  weir::copy(my_stream, host, a);

  EXPECT_TRUE(returns_while_held(gate, [&] { my_stream.synchronize(); }));
  EXPECT_EQ(host[n - 1], 1.0f);
}

// Explicit streams arguments (W17, W18): a copy between devices on the source's stream, after the destination was made.
//   stream1   [held kernel][alloc a1]
//   stream0                          [a1 <- a0]
TEST_P(WarpSynchronizationOfTwo, a_copy_between_devices_takes_the_stream_it_is_given) {
  const weir::StreamRef stream0 = weir::get_stream(first());
  const weir::StreamRef stream1 = weir::get_stream(second());
  auto a0 = weir::ones<float>(first(), n);
  Gate gate;
  gate.hold(stream1);
  auto a1 = weir::empty<float>(second(), n);

  stream0.wait(stream1);
  weir::copy(stream0, a1, a0);

  EXPECT_TRUE(stays(first(), [&] { return !stream0.done(); })) << "the copy waits for the allocation";
  gate.open();
  stream0.synchronize();
  EXPECT_EQ(a1.to_host(), all(1));
}

// Stream usage guidelines (W19): the missing wait of the guide's example, put in by hand.
TEST_P(WarpSynchronization, a_stream_that_waits_for_the_current_one_may_use_its_arrays) {
  Gate gate;
  gate.hold(weir::get_stream(device()));
  auto a = weir::zeros<float>(device(), n);
  weir::Stream s(device());

  s.wait(weir::get_stream(device()));
  weir::launch(s, a.size(), AddOne{}, weir::inout(a));

  EXPECT_TRUE(stays(device(), [&] { return !s.done(); }));
  gate.open();
  EXPECT_EQ(a.to_host(), all(1));
}

// Stream usage guidelines (W11, W19): a scoped stream puts that wait in by itself.
TEST_P(WarpSynchronization, a_scoped_stream_waits_for_the_previous_current_stream) {
  Gate gate;
  gate.hold(weir::get_stream(device()));
  auto a = weir::zeros<float>(device(), n);
  weir::Stream s(device());
  {
    const weir::ScopedStream scope(s);
    weir::launch(a.size(), AddOne{}, weir::inout(a));
  }
  EXPECT_TRUE(stays(device(), [&] { return !s.done(); }));
  gate.open();
  EXPECT_EQ(a.to_host(), all(1));
}

// Synchronization guidance, host-side (W13): from the heaviest to the most specific, each waits for what it names.
TEST_P(WarpSynchronization, each_synchronization_waits_for_what_it_names) {
  weir::Stream idle(device());
  weir::Stream held(device());
  const std::function<void()> waits[] = {[] { weir::synchronize(); }, [this] { weir::synchronize_device(device()); },
                                         [&] { weir::synchronize_stream(held); }};
  for (const auto& wait : waits) {
    Gate gate;
    weir::Event before = held.record();
    gate.hold(held);
    EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_event(before); }));
    EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_stream(idle); }));
    EXPECT_TRUE(blocks_until_open(device(), gate, wait));
  }
}
TEST_P(WarpSynchronizationOfTwo, synchronizing_one_device_does_not_wait_for_the_other) {
  weir::Stream held(first());
  Gate gate;
  gate.hold(held);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_device(second()); }));
  EXPECT_TRUE(blocks_until_open(second(), gate, [&] { weir::synchronize_device(first()); }));
}

}  // namespace

ON_EVERY_DEVICE(WarpSynchronization);
ON_EVERY_BACKEND(WarpSynchronizationOfTwo);
