// Selftest checks of streams, default streams, events and host functions.
#include <weir/error.hpp>
#include <weir/event.hpp>
#include <weir/host_call.hpp>
#include <weir/stream.hpp>

#include "checks.hpp"
#include "measure.hpp"

namespace tool {

namespace {

Verdict played(Scenario& scene) {
  scene.play();
  return Judgement().expect(scene);
}

Verdict launches_return_at_once(weir::Device device) {
  const weir::Stream stream(device);
  Scenario scene(device);
  scene.hold({stream}, "K1");
  const bool pending = !stream.done() && scene.unforced();
  scene.play();
  stream.synchronize();
  return Judgement()
      .expect(pending, "a launch waited for its kernel")
      .expect(stream.done(), "synchronize did not wait");
}

Verdict one_stream_in_order(weir::Device device) {
  const weir::Stream stream(device);
  Scenario scene(device);
  scene.hold({stream}, "K1");
  scene.mark({stream}, "K2");
  scene.mark({stream}, "K3");
  scene.expect_after("K2", "K1");
  scene.expect_after("K3", "K2");
  return played(scene);
}

Verdict two_streams_at_once(weir::Device device) {
  const weir::Stream a(device), b(device);
  Scenario scene(device);
  scene.hold({a}, "K1");
  scene.hold({b}, "K2");
  scene.expect_during("K2", "K1");
  scene.expect_during("K1", "K2");
  return played(scene);
}

Verdict default_and_blocking_wait(weir::Device device) {
  const weir::Stream a(device), b(device);
  Scenario scene(device);
  scene.hold({a}, "K1");
  scene.mark({weir::legacy_stream(device)}, "D1");
  const weir::Stream made_later(device);
  scene.mark({b}, "K2");
  scene.mark({made_later}, "K3");
  scene.expect_after("D1", "K1");
  scene.expect_after("K2", "D1");
  scene.expect_after("K3", "D1");
  return played(scene);
}

Verdict non_blocking_is_independent(weir::Device device) {
  const weir::Stream held(device, {.blocking = false}), other(device, {.blocking = false});
  const weir::StreamRef legacy = weir::legacy_stream(device);
  Scenario scene(device);
  scene.hold({held}, "N1");
  scene.hold({legacy}, "D1");
  scene.mark({other}, "N2");
  scene.expect_during("D1", "N1");
  scene.expect_during("N2", "D1");
  return played(scene);
}

Verdict per_thread_is_blocking(weir::Device device) {
  const weir::StreamRef per_thread = weir::per_thread_stream(device);
  Scenario scene(device);
  scene.hold({per_thread}, "P1");
  scene.mark({weir::legacy_stream(device)}, "D1");
  scene.mark({per_thread}, "P2");
  scene.expect_after("D1", "P1");
  scene.expect_after("P2", "D1");
  return played(scene);
}

Verdict event_covers_what_was_before(weir::Device device) {
  const weir::Stream a(device), b(device);
  Scenario scene(device);
  scene.mark({a}, "K1");
  const weir::Event event = a.record();
  scene.hold({a}, "K2");
  b.wait(event);
  scene.mark({b}, "K3");
  scene.expect_after("K3", "K1");
  scene.expect_during("K3", "K2");
  return played(scene);
}

Verdict wait_keeps_its_snapshot(weir::Device device) {
  const weir::Stream a(device), b(device), c(device);
  weir::Event event(device);
  Scenario scene(device);
  scene.hold({a}, "K1");
  a.record(event);
  b.wait(event);
  scene.mark({b}, "K2");
  c.record(event);
  const bool done = event.done() || scene.unforced();
  scene.mark({c}, "K3");
  scene.expect_after("K2", "K1");
  scene.expect_during("K3", "K1");
  scene.play();
  return Judgement().expect(scene).expect(done, "the event kept its first record");
}

Verdict events_take_time(weir::Device device) {
  const weir::Stream stream(device);
  weir::TimedEvent begin(device), end(device);
  Scenario scene(device);
  // A virtual clock does not know of what is held for real.
  const bool virtual_time = device.backend() == "sim";
  const Stopwatch around(device);
  stream.record(begin);
  scene.hold({stream}, "K1");
  stream.record(end);
  scene.begun("K1");
  const Stopwatch held(device);
  while (!virtual_time && held.milliseconds() < 5) std::this_thread::yield();
  const double least = held.milliseconds();
  scene.play();
  stream.synchronize();
  const double most = around.milliseconds();
  const double measured = weir::elapsed(begin, end).count();
  return Judgement().expect(scene).expect(measured >= 0.95 * least && measured <= 1.05 * most,
                                          "the time between two events is not that of the work between them");
}

Verdict host_functions(weir::Device device) {
  const weir::Stream stream(device);
  Scenario scene(device);
  bool refused = false;
  scene.hold({stream}, "K1");
  scene.host_mark({stream}, "H1");
  scene.mark({stream}, "K2");
  weir::host_call(stream, [&] {
    try {
      stream.synchronize();
    } catch (const weir::Error& error) {
      refused = error.errc() == weir::Errc::not_permitted;
    }
  });
  scene.expect_after("H1", "K1");
  scene.expect_after("K2", "H1");
  scene.play();
  stream.synchronize();
  return Judgement().expect(scene).expect(refused, "a Weir call inside a host function was not refused");
}

Verdict events_order_devices(weir::Device device) {
  const std::vector<weir::Device> devices = weir::devices(device.backend());
  if (devices.size() < 2) return {Outcome::skipped, "one device only"};
  const weir::Device other = devices[device == devices[0] ? 1 : 0];
  const weir::Stream here(device), there(other), free(other);
  Scenario scene(device);
  scene.hold({here}, "K1");
  there.wait(here.record());
  scene.mark({there}, "K2");
  scene.mark({free}, "K3");
  scene.expect_after("K2", "K1");
  scene.expect_during("K3", "K1");
  return played(scene);
}

constexpr Check checks[] = {
    {"a launch returns before its kernel has run", "W1 R1", launches_return_at_once},
    {"one stream runs its commands in order", "M2 C9", one_stream_in_order},
    {"kernels of two streams run at the same time", "C1 M2", two_streams_at_once},
    {"the default stream and blocking streams wait for each other", "M2 R18 R19 R24 R29", default_and_blocking_wait},
    {"non-blocking streams are independent of the default one", "C8 R20", non_blocking_is_independent},
    {"a per-thread stream is a blocking stream", "C8 R21", per_thread_is_blocking},
    {"an event covers what was before it, no more", "W14 R70 R71", event_covers_what_was_before},
    {"a wait keeps the record that it saw", "W14 R72 R73", wait_keeps_its_snapshot},
    {"events order streams of two devices", "P3 W14", events_order_devices},
    {"two events tell the time between them", "N4 P2 R77", events_take_time},
    {"host functions run in order, and may not call Weir", "C13 R84", host_functions},
};

}  // namespace

std::span<const Check> stream_checks() { return checks; }

Verdict forgotten_wait(weir::Device device) {
  const weir::Stream a(device), b(device);
  Scenario scene(device);
  scene.hold({a}, "K1");
  scene.mark({b}, "K2");
  scene.expect_after("K2", "K1");
  // K2 may run while K1 is held, so that the broken expectation does not depend on luck.
  scene.begun("K2");
  return played(scene);
}

}  // namespace tool
