// What captures forbid: errors that name the call and its line, with the graph discarded and the stream usable afterwards
// (W15, W20; R111 to R133, R144 to R148).
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

class GraphsForbidden : public AnyDevice {
 protected:
  /// Begins a capture, makes a call that must fail with `code` naming `call`, and expects the capture to be void and the
  /// stream to be usable.
  template <class Call>
  void breaks(Errc code, const char* call, Call&& offence, bool blocking = true) {
    SCOPED_TRACE(call);
    weir::Stream s(device(), {.blocking = blocking, .name = "captured"});
    weir::Stream other(device(), {.blocking = false});
    Marker marker;
    weir::Event before(device());
    other.record(before);
    weir::capture_begin(s);
    mark(s, marker);
    EXPECT_TRUE(fails_with(code, [&] { offence(s, other, before); }, {call, "graphs_forbidden_test.cpp"}));
    EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { mark(s, marker); }, {call}));  // R124
    EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }, {call, "weir::capture_end"}));
    EXPECT_FALSE(weir::is_capturing(s));
    mark(s, marker, 2);
    s.synchronize();
    EXPECT_EQ(marker.value(), 2);
  }
};

TEST_P(GraphsForbidden, WaitingForACapturingStream) {  // R115
  breaks(Errc::capture_unsupported, "weir::Stream::synchronize", [](auto& s, auto&, auto&) { s.synchronize(); });
  breaks(Errc::capture_unsupported, "weir::Stream::done", [](auto& s, auto&, auto&) { s.done(); });
}

TEST_P(GraphsForbidden, WaitingForTheDevice) {  // R116
  breaks(Errc::capture_unsupported, "weir::Device::synchronize", [&](auto&, auto&, auto&) { device().synchronize(); });
  breaks(Errc::capture_unsupported, "weir::synchronize", [](auto&, auto&, auto&) { weir::synchronize(); });
  breaks(
      Errc::capture_unsupported, "weir::Device::synchronize", [&](auto&, auto&, auto&) { device().synchronize(); },
      false);
}

TEST_P(GraphsForbidden, WaitingForOtherThingsOnTheSameThread) {  // R117
  breaks(Errc::capture_unsupported, "weir::Stream::synchronize",
         [](auto&, auto& other, auto&) { other.synchronize(); });
  breaks(Errc::capture_unsupported, "weir::Stream::done", [](auto&, auto& other, auto&) { other.done(); });
  breaks(Errc::capture_unsupported, "weir::Event::synchronize", [](auto&, auto&, auto& event) { event.synchronize(); });
  breaks(Errc::capture_unsupported, "weir::Event::done", [](auto&, auto&, auto& event) { event.done(); });
}

TEST_P(GraphsForbidden, AskingAboutACapturedEvent) {  // R118
  breaks(Errc::captured_event, "weir::Event::done", [](auto& s, auto&, auto&) { s.record().done(); });
  breaks(Errc::captured_event, "weir::Event::synchronize", [](auto& s, auto&, auto&) { s.record().synchronize(); });
}

TEST_P(GraphsForbidden, ReadingBack) {  // W15
  auto x = weir::zeros<int>(device(), 8);
  breaks(Errc::capture_unsupported, "weir::Array::to_host", [&](auto&, auto&, auto&) { x.to_host(); });
  breaks(
      Errc::capture_unsupported, "weir::Array::to_host", [&](auto&, auto&, auto&) { x.to_host(); }, false);
}

TEST_P(GraphsForbidden, PinningMemory) {  // R122
  std::vector<int> memory(4096);
  breaks(Errc::capture_unsupported, "weir::pin", [&](auto&, auto&, auto&) { weir::pin(memory.data(), 4096); });
  breaks(Errc::capture_unsupported, "weir::empty", [&](auto&, auto&, auto&) { weir::empty<int>(weir::pinned, 100); });
}

TEST_P(GraphsForbidden, TheLegacyStreamWhileABlockingStreamCaptures) {  // R125, R127
  const weir::StreamRef legacy = weir::legacy_stream(device());
  auto x = weir::zeros<int>(device(), 8);
  auto y = weir::zeros<int>(device(), 8);
  Marker marker;
  weir::Event event(device());
  breaks(Errc::capture_implicit, "weir::launch", [&](auto&, auto&, auto&) { mark(legacy, marker); });
  breaks(Errc::capture_implicit, "weir::copy", [&](auto&, auto&, auto&) { weir::copy(legacy, x, y); });
  breaks(Errc::capture_implicit, "weir::fill", [&](auto&, auto&, auto&) { weir::fill(legacy, x, 1); });
  breaks(Errc::capture_implicit, "weir::host_call", [&](auto&, auto&, auto&) { weir::host_call(legacy, [] {}); });
  breaks(Errc::capture_implicit, "weir::Stream::record", [&](auto&, auto&, auto&) { legacy.record(event); });
  breaks(Errc::capture_implicit, "weir::Stream::wait", [&](auto&, auto&, auto& before) { legacy.wait(before); });
  breaks(Errc::capture_implicit, "weir::Stream::done", [&](auto&, auto&, auto&) { legacy.done(); });
  breaks(Errc::capture_implicit, "weir::Stream::synchronize", [&](auto&, auto&, auto&) { legacy.synchronize(); });
}

TEST_P(GraphsForbidden, TheLegacyStreamRunsWhileANonBlockingStreamCaptures) {  // R126
  weir::Stream s(device(), {.blocking = false});
  Marker marker;
  weir::ScopedCapture capture(s);
  mark(weir::legacy_stream(device()), marker);
  EXPECT_EQ(capture.finish().size(), 0u);
  weir::legacy_stream(device()).synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(GraphsForbidden, CapturingTheLegacyStream) {  // R111
  EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { weir::capture_begin(weir::legacy_stream(device())); },
                         {"weir::capture_begin"}));
  const weir::StreamRef mine = weir::per_thread_stream(device());
  weir::capture_begin(mine);
  EXPECT_EQ(weir::capture_end(mine).size(), 0u);
}

TEST_P(GraphsForbidden, ThePerThreadStreamIsABlockingOne) {  // R146
  Marker marker;
  const weir::StreamRef mine = weir::per_thread_stream(device());
  weir::capture_begin(mine);
  EXPECT_TRUE(fails_with(Errc::capture_implicit, [&] { mark(weir::legacy_stream(device()), marker); }));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(mine); }));
}

TEST_P(GraphsForbidden, NestedBegin) {  // R112
  weir::Stream s(device());
  weir::capture_begin(s);
  EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { weir::capture_begin(s); }, {"weir::capture_begin"}));
  EXPECT_EQ(weir::capture_end(s).size(), 0u);  // the capture goes on
}

TEST_P(GraphsForbidden, EndingWithoutACapture) {  // R113
  weir::Stream s(device());
  weir::Stream t(device());
  EXPECT_TRUE(fails_with(Errc::not_capturing, [&] { weir::capture_end(s); }, {"weir::capture_end"}));
  weir::capture_begin(s);
  EXPECT_TRUE(fails_with(Errc::not_capturing, [&] { weir::capture_end(t); }));
  weir::capture_end(s);
  EXPECT_TRUE(fails_with(Errc::not_capturing, [&] { weir::capture_end(s); }));
  EXPECT_TRUE(fails_with(Errc::not_capturing, [&] { weir::capture_end(weir::legacy_stream(device())); }));
}

TEST_P(GraphsForbidden, EndingOnAnotherStream) {  // R114
  weir::Stream s(device(), {.name = "origin"});
  weir::Stream t(device(), {.name = "fork"});
  weir::capture_begin(s);
  t.wait(s);
  EXPECT_TRUE(fails_with(Errc::capture_unmatched, [&] { weir::capture_end(t); }, {"origin", "fork"}));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }));
  Marker marker;
  mark(s, marker);
  mark(t, marker, 1);
  s.synchronize();
  t.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(GraphsForbidden, AForkThatIsNotJoined) {  // R130
  weir::Stream s(device());
  weir::Stream t(device(), {.name = "loose"});
  Marker marker;
  weir::capture_begin(s);
  t.wait(s);
  mark(t, marker);
  EXPECT_TRUE(fails_with(Errc::capture_unjoined, [&] { weir::capture_end(s); }, {"loose"}));
  EXPECT_FALSE(weir::is_capturing(t));
  mark(t, marker, 3);
  t.synchronize();
  EXPECT_EQ(marker.value(), 3);
  weir::capture_begin(s);
  t.wait(s);  // without work
  EXPECT_EQ(weir::capture_end(s).size(), 0u);
}

TEST_P(GraphsForbidden, WaitingForAnEventFromOutside) {  // R131
  breaks(Errc::capture_isolation, "weir::Stream::wait", [](auto& s, auto&, auto& before) { s.wait(before); });
  breaks(Errc::capture_isolation, "weir::Stream::wait", [](auto& s, auto& other, auto&) { s.wait(other); });
  weir::Stream s(device());
  weir::Event never(device());
  weir::capture_begin(s);
  s.wait(never);
  EXPECT_EQ(weir::capture_end(s).size(), 0u);
}

TEST_P(GraphsForbidden, MergingTwoCaptures) {  // R132
  weir::Stream s(device());
  weir::Stream t(device());
  weir::capture_begin(s);
  weir::capture_begin(t);
  weir::Event event = s.record();
  EXPECT_TRUE(fails_with(Errc::capture_merge, [&] { t.wait(event); }));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(t); }));
}

TEST_P(GraphsForbidden, EndingInAnotherThread) {  // R133
  weir::Stream s(device());
  weir::capture_begin(s);
  std::thread([&] { EXPECT_TRUE(fails_with(Errc::capture_wrong_thread, [&] { weir::capture_end(s); })); }).join();
  EXPECT_FALSE(weir::is_capturing(s));
  EXPECT_TRUE(fails_with(Errc::not_capturing, [&] { weir::capture_end(s); }));
}

TEST_P(GraphsForbidden, OtherThreadsMayWaitForOtherStreams) {  // R148: the mode is the thread's
  weir::Stream s(device(), {.blocking = false});
  weir::Stream t(device());
  weir::capture_begin(s);
  std::thread([&] {
    t.synchronize();
    EXPECT_TRUE(t.done());
    weir::empty<int>(weir::pinned, 16);  // R121
    weir::legacy_stream(device()).synchronize();
  }).join();
  EXPECT_EQ(weir::capture_end(s).size(), 0u);
  weir::capture_begin(s);
  std::thread([&] { EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { device().synchronize(); })); }).join();
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }));
}

TEST_P(GraphsForbidden, AGlobalCaptureForbidsWaitsOfAllThreads) {  // R148, R121
  weir::Stream s(device(), {.blocking = false});
  weir::Stream t(device());
  const auto breaks_from_outside = [&](const char* call, auto&& offence) {
    SCOPED_TRACE(call);
    weir::capture_begin(s, weir::CaptureMode::global);
    std::thread([&] { EXPECT_TRUE(fails_with(Errc::capture_unsupported, offence, {call})); }).join();
    EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }));
  };
  breaks_from_outside("weir::Stream::synchronize", [&] { t.synchronize(); });
  breaks_from_outside("weir::Stream::done", [&] { t.done(); });
  breaks_from_outside("weir::empty", [] { weir::empty<int>(weir::pinned, 16); });
}

TEST_P(GraphsForbidden, ARelaxedCaptureForbidsWaitsForItselfAlone) {  // R115 to R117, R120
  weir::Stream s(device(), {.blocking = false});
  weir::Stream t(device());
  const weir::Event event = t.record();
  weir::capture_begin(s, weir::CaptureMode::relaxed);
  t.synchronize();
  EXPECT_TRUE(t.done());
  event.synchronize();
  weir::empty<int>(weir::pinned, 16);
  EXPECT_EQ(weir::capture_end(s).size(), 0u);
  weir::capture_begin(s, weir::CaptureMode::relaxed);
  EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { s.synchronize(); }));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }));
  weir::capture_begin(s, weir::CaptureMode::relaxed);
  EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { device().synchronize(); }));
  EXPECT_TRUE(fails_with(Errc::capture_invalidated, [&] { weir::capture_end(s); }));
}

TEST_P(GraphsForbidden, ARelaxedCaptureMayEndInAnotherThread) {  // R133
  weir::Stream s(device());
  Marker marker;
  weir::capture_begin(s, weir::CaptureMode::relaxed);
  mark(s, marker);
  std::thread([&] { EXPECT_EQ(weir::capture_end(s).size(), 1u); }).join();
  EXPECT_FALSE(weir::is_capturing(s));
}

TEST_P(GraphsForbidden, AnExceptionOfTheBodyEndsTheCaptureAndPasses) {
  weir::Stream s(device());
  weir::Stream t(device());
  Marker marker;
  EXPECT_THROW(weir::capture(s,
                             [&] {
                               t.wait(s);
                               mark(t, marker);
                               throw std::out_of_range("mine");
                             }),
               std::out_of_range);
  EXPECT_FALSE(weir::is_capturing(s));
  EXPECT_FALSE(weir::is_capturing(t));
  mark(t, marker, 4);
  t.synchronize();
  EXPECT_EQ(marker.value(), 4);
}

TEST_P(GraphsForbidden, AnErrorInsideTheBodyPasses) {
  weir::Stream s(device());
  EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { weir::capture(s, [&] { s.synchronize(); }); },
                         {"weir::Stream::synchronize"}));
  s.synchronize();
}

TEST_P(GraphsForbidden, CapturedEventsAfterTheCapture) {  // R119
  weir::Stream s(device());
  weir::Event event(device());
  weir::capture_begin(s);
  s.record(event);
  weir::capture_end(s);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { event.done(); }));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { event.synchronize(); }));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { s.wait(event); }));
  s.record(event);
  event.synchronize();
  EXPECT_TRUE(event.done());
}

TEST_P(GraphsForbidden, FreeingWhatTheCaptureDidNotMake) {  // R138
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 8);
  s.synchronize();
  weir::capture_begin(s);
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { x.free(s); }, {"weir::Array::free"}));
  EXPECT_EQ(weir::capture_end(s).size(), 0u);  // the capture goes on
  EXPECT_EQ(x.to_host(), std::vector<int>(8, 0));
}

TEST_P(GraphsForbidden, DestroyingStreamsThatCapture) {  // R145
  weir::Stream s(device());
  Marker marker;
  weir::capture_begin(s);
  {
    weir::Stream t(device());
    t.wait(s);
    mark(t, marker);
    s.wait(t);
  }
  EXPECT_EQ(weir::capture_end(s).size(), 1u);
  std::optional<weir::ScopedCapture> capture;
  {
    weir::Stream t(device());
    capture.emplace(t);
  }
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { capture->finish(); }));
  capture.reset();
  s.synchronize();  // nobody captures any more
}

ON_EVERY_DEVICE(GraphsForbidden);

}  // namespace
