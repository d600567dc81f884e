// Two devices: independent streams and legacy streams, events across them, and what needs one device.
#include <string>
#include <thread>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class AcrossDevices : public TwoDevices {};
ON_EVERY_BACKEND(AcrossDevices);

struct Meet {
  WEIR_KERNEL void operator()(std::size_t, int* here, int* there, int* met) const {
    store_word(here, 1);
    if (wait_for_word(there)) add_to_word(met, 1);
  }
};

//  first:  [waits for the other kernel]
//  second: [waits for the other kernel]
TEST_P(AcrossDevices, W2_R186_kernels_of_two_devices_run_at_one_time) {
  Marker here, there, met(2);  // a word each: additions of two GPUs in pinned memory are not atomic for each other
  weir::launch(first(), 1, Meet{}, here.word(), there.word(), met.word(0));
  weir::launch(second(), 1, Meet{}, there.word(), here.word(), met.word(1));
  weir::synchronize();
  EXPECT_EQ(met.value(0) + met.value(1), 2);
}

TEST_P(AcrossDevices, W14_R187_recording_on_another_devices_stream_is_refused_and_names_both) {
  weir::Event e(first());
  weir::TimedEvent t(first());
  weir::Stream s(second());
  const auto names = {std::string_view(first().name()), std::string_view(second().name())};
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_device, [&] { s.record(e); }, names));
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_device, [&] { s.record(t); }, names));
  EXPECT_TRUE(fails_with(
      weir::Errc::wrong_device, [&] { weir::legacy_stream(second()).record(e); }, names));
  EXPECT_TRUE(e.done()) << "a refused record changes nothing";
}

//  a, first device:  [hold ......]|e
//  b, second device: wait(e) [mark]
TEST_P(AcrossDevices, W14_P3_R188_a_stream_waits_for_an_event_of_another_device) {
  Gate gate;
  Marker marker;
  weir::Stream a(first()), b(second());
  gate.hold(a);
  const weir::Event e = a.record();
  EXPECT_TRUE(returns_while_held(gate, [&] { b.wait(e); }));
  mark(b, marker);
  EXPECT_TRUE(stays(second(), [&] { return marker.value() == 0 && !e.done(); }));
  EXPECT_TRUE(blocks_until_open(second(), gate, [&] {
    const weir::ScopedDevice scope(second());
    e.synchronize();
  }));
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a, first device:  [hold ......]
//  b, second device: wait(a) [mark]
TEST_P(AcrossDevices, W14_a_stream_waits_for_a_stream_of_another_device) {
  Gate gate;
  Marker marker;
  weir::Stream a(first()), b(second());
  gate.hold(a);
  b.wait(a);
  mark(b, marker);
  EXPECT_TRUE(stays(second(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a, first device:       [hold ......]        (blocking)
//  legacy, first device:               [mark]
//  legacy, second device: [mark]
TEST_P(AcrossDevices, R193_each_device_has_its_own_legacy_stream) {
  Gate gate;
  Marker mine, other;
  weir::Stream a(first());
  EXPECT_FALSE(weir::legacy_stream(first()) == weir::legacy_stream(second()));
  gate.hold(a);
  mark(weir::legacy_stream(first()), mine);
  mark(weir::legacy_stream(second()), other);
  EXPECT_TRUE(eventually([&] { return other.value() == 1; }));
  EXPECT_TRUE(stays(second(), [&] { return mine.value() == 0; }));
}

//  a, first device: [hold ......]
TEST_P(AcrossDevices, W13_R194_device_synchronise_waits_for_that_device_only) {
  Gate gate;
  Marker marker;
  weir::Stream a(first()), b(second());
  gate.hold(a);
  mark(b, marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { second().synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::synchronize_device(second()); }));
  EXPECT_TRUE(blocks_until_open(second(), gate, [&] { first().synchronize(); }));
}

//  a, first device: [hold ......]
TEST_P(AcrossDevices, W13_synchronise_waits_for_all_devices) {
  for (const weir::Device device : {first(), second()}) {
    Gate gate;
    weir::Stream s(device);
    gate.hold(s);
    EXPECT_TRUE(blocks_until_open(device == first() ? second() : first(), gate, [&] { weir::synchronize(); }))
        << device.name();
  }
}

TEST_P(AcrossDevices, R195_events_of_two_devices_have_no_time_between_them) {
  weir::Stream a(first()), b(second());
  const weir::TimedEvent start = a.record_timed();
  const weir::TimedEvent end = b.record_timed();
  weir::synchronize();
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { (void)weir::elapsed(start, end); }, {"elapsed"}));
}

TEST_P(AcrossDevices, R196_the_default_device_is_each_threads_own) {
  weir::Device fresh = first();
  std::thread([&] { fresh = weir::default_device(); }).join();
  const weir::ScopedDevice scope(second());
  EXPECT_EQ(weir::default_device(), second());
  EXPECT_EQ(weir::Stream().device(), second());
  EXPECT_EQ(weir::Event().device(), second());
  std::thread([&] { EXPECT_EQ(weir::default_device(), fresh); }).join();
  {
    const weir::ScopedDevice inner(first().name());
    EXPECT_EQ(weir::default_device(), first());
  }
  EXPECT_EQ(weir::default_device(), second());
}

//  per thread, first device: [hold ......]      per thread, second device: [mark]
TEST_P(AcrossDevices, R202_the_per_thread_stream_is_one_for_each_device) {
  Gate gate;
  Marker marker;
  EXPECT_FALSE(weir::per_thread_stream(first()) == weir::per_thread_stream(second()));
  gate.hold(weir::per_thread_stream(first()));
  mark(weir::per_thread_stream(second()), marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

TEST_P(AcrossDevices, W12_a_stream_is_current_on_its_own_device_only) {
  const weir::StreamRef own = weir::get_stream(second());
  const weir::StreamRef before = weir::get_stream(first());
  const weir::Stream s(second());
  EXPECT_TRUE(
      fails_with(weir::Errc::wrong_device, [&] { weir::set_stream(s, first()); }, {first().name(), second().name()}));
  EXPECT_TRUE(weir::get_stream(first()) == before);
  weir::set_stream(s);
  EXPECT_TRUE(weir::get_stream(second()) == s);
  EXPECT_TRUE(weir::get_stream(first()) == before);
  weir::set_stream(own);
}

//  second device's current stream: [hold ......]
//  s, second device:               (scope) [mark]      waits for the current stream of its own device
TEST_P(AcrossDevices, W11_a_scoped_stream_makes_its_device_the_default_one) {
  Gate gate;
  Marker marker;
  const weir::ScopedDevice outer(first());
  const weir::Stream old(second()), s(second());
  const weir::StreamRef own = weir::get_stream(second());
  weir::set_stream(old);
  gate.hold(old);
  {
    const weir::ScopedStream scope(s);
    EXPECT_EQ(weir::default_device(), second());
    weir::launch(1, WriteMark{}, marker.word(), 1);
    EXPECT_TRUE(stays(second(), [&] { return marker.value() == 0; }));
  }
  EXPECT_EQ(weir::default_device(), first());
  EXPECT_TRUE(weir::get_stream(second()) == old);
  gate.open();
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
  weir::set_stream(own);
}

//  first:  [0]|e   [2]|e ...
//  second:    e[1]|f  e[3]|f ...
TEST_P(AcrossDevices, P3_two_devices_take_turns_by_events) {
  Log log(1000);
  weir::Stream a(first()), b(second());
  weir::Event e(first()), f(second());
  std::vector<int> expected;
  for (int i = 0; i < 1000; i += 2) {
    log.note(a, i);
    a.record(e);
    b.wait(e);
    log.note(b, i + 1);
    b.record(f);
    a.wait(f);
    expected.insert(expected.end(), {i, i + 1});
  }
  b.synchronize();
  EXPECT_EQ(log.values(), expected);
}

}  // namespace
}  // namespace weir_test
