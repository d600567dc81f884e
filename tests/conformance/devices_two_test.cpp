// Two devices: each its own streams, legacy stream and synchronisation; events order across them (W2, P3, R186 to R189,
// R193 to R197, R202, R203).
// Left out: R198 (cudaMemcpyPeer: there is no synchronous copy between devices), R201 (captures: graphs).
#include <thread>

#include "arrays_support.hpp"

using namespace weir_test;

class OfTwoDevices : public TwoDevices {};
ON_EVERY_BACKEND(OfTwoDevices);

namespace {

/// Arrives, and waits for the other one.
struct MeetOnDevices {
  WEIR_KERNEL void operator()(std::size_t, int* own, int* other, int* met) const {
    store_word(own, 1);
    store_word(met, wait_for_word(other) ? 1 : -1);
  }
};

struct Fails {
  void operator()(std::size_t) const { throw 1; }
};

}  // namespace

// W2, R186:   first:  [arrive, wait for the other]
//             second: [arrive, wait for the other]     only possible at the same time
TEST_P(OfTwoDevices, kernels_run_at_the_same_time) {
  weir::Stream a(first());
  weir::Stream b(second());
  Marker words(4);
  weir::launch(a, 1, MeetOnDevices{}, words.word(0), words.word(1), words.word(2));
  weir::launch(b, 1, MeetOnDevices{}, words.word(1), words.word(0), words.word(3));
  a.synchronize();
  b.synchronize();
  EXPECT_EQ(words.value(2), 1);
  EXPECT_EQ(words.value(3), 1);
}

// W5:   first:  [hold]--[zeros]
//       second:         [ones]        creations on different devices do not wait for each other
TEST_P(OfTwoDevices, arrays_are_made_at_the_same_time) {
  Gate gate;
  gate.hold(weir::get_stream(first()));
  weir::Array<int> zeros, ones;
  EXPECT_TRUE(returns_while_held(gate, [&] {
    zeros = weir::zeros<int>(first(), 1000);
    ones = weir::ones<int>(second(), 1000);
    EXPECT_EQ(ones.to_host(), std::vector<int>(1000, 1));
  }));
  gate.open();
  EXPECT_EQ(zeros.to_host(), std::vector<int>(1000, 0));
}

// W14, R187
TEST_P(OfTwoDevices, recording_on_the_other_devices_stream_is_an_error_that_names_both) {
  weir::Event event(first());
  weir::TimedEvent timed(first());
  weir::Stream stream(second());
  const std::initializer_list<std::string_view> words = {"record", first().name(), second().name(),
                                                         "devices_two_test.cpp"};
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_device, [&] { stream.record(event); }, words));
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_device, [&] { stream.record(timed); }, words));
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_device, [&] { weir::legacy_stream(second()).record(event); }, words));
  EXPECT_TRUE(event.done());
  EXPECT_EQ(stream.record().device(), second());
}

// P3, R188:   first:  [hold]--[mark](e)
//             second:               (wait e)[mark]
TEST_P(OfTwoDevices, a_stream_waits_for_an_event_of_the_other_device) {
  weir::Stream a(first());
  weir::Stream b(second());
  Marker of_a, of_b;
  Gate gate;
  gate.hold(a);
  mark(a, of_a);
  const weir::Event event = a.record();
  EXPECT_TRUE(returns_while_held(gate, [&] { b.wait(event); }));
  mark(b, of_b, 1);
  EXPECT_TRUE(stays(second(), [&] { return of_b.value() == 0 && !event.done(); }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(of_a.value(), 1);
  EXPECT_EQ(of_b.value(), 1);
  EXPECT_TRUE(event.done());
}

// first:  [+1](e0)                (wait e1)[+1](e2)
// second:         (wait e0)[+1](e1)               (wait e2)[+1] ...
TEST_P(OfTwoDevices, work_passes_to_and_fro_by_events) {
  weir::Stream a(first());
  weir::Stream b(second());
  Log log;
  Gate gate;
  gate.hold(a);
  for (int round = 0; round < 20; ++round) {
    log.note(a, 2 * round);
    b.wait(a);
    log.note(b, 2 * round + 1);
    a.wait(b);
  }
  gate.open();
  a.synchronize();
  b.synchronize();
  EXPECT_EQ(log.values(), counted(40));
}

// R189: the default device does not matter to a stream.
TEST_P(OfTwoDevices, a_stream_works_whatever_device_is_the_default_one) {
  const weir::ScopedDevice scope(first());
  weir::Stream stream(second());
  auto array = weir::zeros<int>(stream, 100);
  EXPECT_EQ(array.device(), second());
  weir::launch(stream, 100, AddValue{}, weir::inout(array), 4);
  auto pinned = weir::zeros<int>(weir::pinned, 100);
  weir::copy(stream, pinned, array);
  weir::host_call(stream, [] {});
  stream.synchronize();
  EXPECT_TRUE(stream.done());
  EXPECT_EQ(host_values(pinned), std::vector<int>(100, 4));
  EXPECT_EQ(weir::default_device(), first());
}

// R193:   first:          [hold]------
//         legacy, first:        [mark]
//         legacy, second: [mark]          each device has its own
TEST_P(OfTwoDevices, each_has_its_own_legacy_stream) {
  weir::Stream a(first());
  Marker of_first, of_second;
  Gate gate;
  gate.hold(a);
  mark(weir::legacy_stream(first()), of_first);
  mark(weir::legacy_stream(second()), of_second);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::legacy_stream(second()).synchronize(); }));
  EXPECT_EQ(of_second.value(), 1);
  EXPECT_TRUE(stays(first(), [&] { return of_first.value() == 0; }));
  gate.open();
  weir::legacy_stream(first()).synchronize();
  EXPECT_EQ(of_first.value(), 1);
}

// R202:   per thread, first:  [hold]
//         per thread, second:       [mark]
TEST_P(OfTwoDevices, each_has_its_own_per_thread_stream) {
  Marker marker;
  Gate gate;
  gate.hold(weir::per_thread_stream(first()));
  const weir::StreamRef other = weir::per_thread_stream(second());
  EXPECT_NE(other, weir::per_thread_stream(first()));
  mark(other, marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { other.synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
}

// R194:   first:  [hold]
//         second:        synchronize() returns; synchronize(first) does not
TEST_P(OfTwoDevices, synchronising_one_does_not_wait_for_the_other) {
  weir::Stream a = free_stream(first(), "a");
  Gate gate;
  gate.hold(a);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    second().synchronize();
    weir::synchronize_device(second());
    const weir::ScopedDevice scope(second());
    weir::synchronize_device();
  }));
  EXPECT_TRUE(blocks_until_open(second(), gate, [&] { first().synchronize(); }));
}

TEST_P(OfTwoDevices, synchronising_everything_waits_for_both) {
  for (const weir::Device& held : {first(), second()}) {
    weir::Stream stream = free_stream(held, "held");
    Gate gate;
    gate.hold(stream);
    EXPECT_TRUE(blocks_until_open(held, gate, [] { weir::synchronize(); }));
  }
}

// R195
TEST_P(OfTwoDevices, time_between_events_of_both_is_an_error_that_names_them) {
  weir::Stream a(first());
  weir::Stream b(second());
  const weir::TimedEvent start = a.record_timed();
  const weir::TimedEvent end = b.record_timed();
  start.synchronize();
  end.synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { (void)weir::elapsed(start, end); },
                         {"weir::elapsed", first().name(), second().name()}));
}

// R197
TEST_P(OfTwoDevices, memory_of_a_stream_is_memory_of_its_device) {
  const weir::ScopedDevice scope(first());
  weir::Stream b(second());
  const auto array = weir::empty<int>(b, 1000);
  EXPECT_EQ(array.device(), second());
  EXPECT_EQ(weir::pointer_info(array.data()).device, second().index());
}

TEST_P(OfTwoDevices, a_pool_serves_streams_of_its_device_only) {
  weir::Stream a(first());
  weir::Stream b(second());
  const weir::Pool pool(first());
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { (void)pool.allocate(b, 1000); },
                         {"weir::Pool::allocate", second().name()}));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { (void)weir::empty<int>(b, 10, pool); }));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { weir::set_pool(second(), pool); }, {"weir::set_pool"}));
  EXPECT_EQ(pool.statistics().used, 0u);
  pool.free(a, pool.allocate(a, 1000));
}

// R203: on a GPU such an error ends the process's use of all devices; here the other device does not know of it.
TEST_P(OfTwoDevices, a_failure_of_one_leaves_the_other_usable) {
  if (GetParam() != "cpu") GTEST_SKIP() << "kernels that throw exist on the CPU only";
  weir::Stream a(first());
  weir::Stream b(second());
  auto array = weir::zeros<int>(b, 100);
  weir::launch(a, 1, weir::host_only(Fails{}));
  weir::launch(b, 100, AddValue{}, weir::inout(array), 1);
  b.synchronize();
  second().synchronize();
  EXPECT_EQ(array.to_host(), std::vector<int>(100, 1));
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { a.synchronize(); }));
}

TEST_P(OfTwoDevices, the_current_stream_of_a_scope_changes_the_default_device) {
  const weir::ScopedDevice outer(first());
  weir::Stream b(second());
  {
    const weir::ScopedStream scope(b);
    EXPECT_EQ(weir::default_device(), second());
    EXPECT_EQ(weir::get_stream(), b);
    EXPECT_EQ(weir::zeros<int>(3).device(), second());
  }
  EXPECT_EQ(weir::default_device(), first());
  EXPECT_NE(weir::get_stream(second()), b);
}

TEST_P(OfTwoDevices, set_stream_with_another_device_is_an_error_that_changes_nothing) {
  weir::Stream b(second());
  const weir::StreamRef before_first = weir::get_stream(first());
  const weir::StreamRef before_second = weir::get_stream(second());
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { weir::set_stream(b, first()); },
                         {"weir::set_stream", first().name(), second().name()}));
  EXPECT_EQ(weir::get_stream(first()), before_first);
  EXPECT_EQ(weir::get_stream(second()), before_second);
}

// Two host threads, each with its own device, in parallel.
TEST_P(OfTwoDevices, two_threads_drive_one_each) {
  std::vector<std::vector<int>> results(2);
  std::vector<std::thread> threads;
  for (std::size_t k = 0; k < 2; ++k) {
    threads.emplace_back([&, k] {
      const weir::ScopedDevice scope(k == 0 ? first() : second());
      auto array = weir::zeros<int>(1000);
      for (int round = 0; round < 200; ++round)
        weir::launch(1000, AddValue{}, weir::inout(array), static_cast<int>(k) + 1);
      results[k] = array.to_host();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(results[0], std::vector<int>(1000, 200));
  EXPECT_EQ(results[1], std::vector<int>(1000, 400));
}

// R192:   first:   [hold]--[throws]--[pinned -> far]     by a stream of the second device, which has no failure of its own
TEST_P(OfTwoDevices, a_failure_before_a_copy_of_the_others_memory_is_told_once) {
  weir::Stream stream(first());
  auto far = weir::zeros<int>(second(), 1000);
  second().synchronize();
  const auto pinned = weir::from(weir::pinned, counted(1000, 1));
  Gate gate;
  gate.hold(stream);
  weir::host_call(stream, [] { throw 1; });
  weir::copy(stream, far, pinned);
  gate.open();
  EXPECT_THROW(stream.synchronize(), weir::Error);
  EXPECT_NO_THROW(second().synchronize());
  EXPECT_EQ(far.to_host(), std::vector<int>(1000, 0));
}
