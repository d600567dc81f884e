// The current stream of each device and host thread, and the scopes that change it.
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/between_looks.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class CurrentStream : public AnyDevice {};
ON_EVERY_DEVICE(CurrentStream);

struct CountBlocks {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const {
    block.each([&](std::size_t) { x[block.index()] += 1; });
  }
};

/// Runs a function on a thread of its own, whose default device is `device`.
template <class F>
void on_another_thread(weir::Device device, F&& function) {
  std::thread([&] {
    const weir::ScopedDevice scope(device);
    function();
  }).join();
}

TEST_P(CurrentStream, W9_a_device_starts_with_a_stream_of_its_own) {
  const weir::StreamRef own = weir::get_stream(device());
  EXPECT_EQ(own.device(), device());
  EXPECT_TRUE(own.blocking()) << "to_host() relies on the legacy stream waiting for it";
  EXPECT_FALSE(own == weir::legacy_stream(device()));
  EXPECT_FALSE(own == weir::per_thread_stream(device()));
  EXPECT_TRUE(own == weir::get_stream(device())) << "it is the same each time";
  EXPECT_TRUE(own == weir::get_stream()) << "the fixture made this device the default one";
  EXPECT_EQ(weir::Stream().device(), device());
}

TEST_P(CurrentStream, W12_set_stream_changes_what_get_stream_gives) {
  const weir::StreamRef own = weir::get_stream(device());
  const weir::Stream s(device());
  weir::set_stream(s);
  EXPECT_TRUE(weir::get_stream(device()) == s);
  EXPECT_TRUE(weir::get_stream() == s);
  weir::set_stream(own, device());
  EXPECT_TRUE(weir::get_stream(device()) == own);
}

TEST_P(CurrentStream, W12_it_is_set_for_one_thread_only) {
  const weir::StreamRef own = weir::get_stream(device());
  const weir::Stream s(device());
  weir::set_stream(s);
  on_another_thread(device(), [&] {
    EXPECT_TRUE(weir::get_stream(device()) == own);
    const weir::Stream t(device());
    weir::set_stream(t);
    EXPECT_TRUE(weir::get_stream(device()) == t);
  });
  EXPECT_TRUE(weir::get_stream(device()) == s);
  weir::set_stream(own);
}

//  current: [hold ......][a launch without a stream][a launch on the device]
//  other:   [mark]                  an explicit stream wins (W16)
TEST_P(CurrentStream, W16_calls_without_a_stream_use_it_and_an_explicit_stream_wins) {
  Gate gate;
  Marker without, on_device, explicitly;
  const weir::Stream current(device());
  const weir::Stream other(device());
  const weir::StreamRef own = weir::get_stream(device());
  weir::set_stream(current);
  gate.hold(current);
  weir::launch(1, WriteMark{}, without.word(), 1);
  weir::launch(device(), 1, WriteMark{}, on_device.word(), 1);
  mark(other, explicitly);
  EXPECT_TRUE(eventually([&] { return explicitly.value() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return without.value() + on_device.value() == 0; }));
  weir::set_stream(own);
  gate.open();
  current.synchronize();
  EXPECT_EQ(without.value(), 1);
  EXPECT_EQ(on_device.value(), 1);
}

//  old current: [hold ......]
//  s:           (scope entered) [mark]      the mark waits for what was in the old current stream
TEST_P(CurrentStream, W11_a_scoped_stream_waits_for_the_previous_one_on_entry) {
  Gate gate;
  Marker marker;
  const weir::Stream old(device());
  const weir::Stream s(device());
  const weir::ScopedStream outer(old);
  gate.hold(old);
  {
    const weir::ScopedStream inner(s);
    EXPECT_TRUE(weir::get_stream(device()) == s);
    weir::launch(1, WriteMark{}, marker.word(), 1);
    EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  }
  gate.open();
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  s:           [hold ......]
//  old current:               (scope left) [mark]      runs at once: there is no wait on exit
TEST_P(CurrentStream, W11_leaving_a_scope_restores_the_stream_without_waiting) {
  Gate gate;
  Marker marker;
  const weir::StreamRef old = weir::get_stream(device());
  const weir::Stream s(device());
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const weir::ScopedStream scope(s);
    gate.hold(s);
  }));
  EXPECT_TRUE(weir::get_stream(device()) == old);
  weir::launch(1, WriteMark{}, marker.word(), 1);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(gate.is_open());
}

TEST_P(CurrentStream, W11_scopes_nest_and_restore_when_an_exception_leaves_them) {
  const weir::StreamRef own = weir::get_stream(device());
  const weir::Stream a(device());
  const weir::Stream b(device());
  try {
    const weir::ScopedStream first(a);
    {
      const weir::ScopedStream second(b);
      EXPECT_TRUE(weir::get_stream() == b);
    }
    EXPECT_TRUE(weir::get_stream() == a);
    const weir::ScopedStream third(b);
    throw std::runtime_error("out of here");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(weir::get_stream() == own);
  }
}

TEST_P(CurrentStream, W11_a_scope_of_the_stream_that_is_current_already_is_nothing) {
  Marker marker;
  const weir::Stream s(device());
  const weir::ScopedStream first(s);
  {
    const weir::ScopedStream again(s);
    weir::launch(1, WriteMark{}, marker.word(), 1);
  }
  EXPECT_TRUE(weir::get_stream() == s);
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  current: [hold ......]|e        other: wait(e) [mark]
TEST_P(CurrentStream, W14_record_event_marks_the_current_stream) {
  Gate gate;
  const weir::Stream s(device());
  const weir::ScopedStream scope(s);
  weir::Event given(device());
  gate.hold(s);
  weir::record_event(given);
  const weir::Event made = weir::record_event();
  EXPECT_FALSE(given.done());
  EXPECT_FALSE(made.done());
  gate.open();
  given.synchronize();
  made.synchronize();
}

//  held:    [hold ......]|e
//  current: wait_event(e), or wait_stream(held), [mark]
TEST_P(CurrentStream, W14_wait_event_and_wait_stream_hold_the_current_stream) {
  for (const bool by_event : {true, false}) {
    Gate gate;
    Marker marker;
    const weir::Stream held(device());
    const weir::Stream s(device());
    const weir::ScopedStream scope(s);
    gate.hold(held);
    EXPECT_TRUE(returns_while_held(gate, [&] {
      if (by_event) {
        weir::wait_event(held.record());
      } else {
        weir::wait_stream(held);
      }
      weir::launch(1, WriteMark{}, marker.word(), 1);
    }));
    EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; })) << by_event;
    gate.open();
    s.synchronize();
    EXPECT_EQ(marker.value(), 1);
  }
}

//  s: [hold ......]  end of the block: waits
TEST_P(CurrentStream, N1_auto_synchronize_waits_at_the_end_of_its_block) {
  Gate gate;
  Marker marker;
  const weir::Stream s(device());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] {
    const weir::AutoSynchronize scope(s);
    gate.hold(s);
    mark(s, marker);
  }));
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(CurrentStream, N1_auto_synchronize_waits_when_an_exception_leaves_its_block) {
  Gate gate;
  Marker marker;
  const weir::Stream s(device());
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] {
    try {
      const weir::AutoSynchronize scope(s);
      gate.hold(s);
      mark(s, marker);
      throw std::runtime_error("out of here");
    } catch (const std::runtime_error&) {
    }
  }));
  EXPECT_EQ(marker.value(), 1);
}

/// Lets a held kernel run for at least `time`, measured by the host while the kernel is known to run.
void hold_for(Gate& gate, weir::StreamRef s, std::chrono::milliseconds time) {
  gate.hold(s);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  const auto begin = std::chrono::steady_clock::now();
  for (int looks = 0; std::chrono::steady_clock::now() - begin < time; ++looks) weir_test::between_looks(looks);
  gate.open();
}

//  s: |start [hold 5 ms] stop|
TEST_P(CurrentStream, N4_a_scoped_timer_times_what_it_encloses) {
  Gate gate;
  const weir::Stream s(device());
  weir::ScopedTimer timer(s, "assemble");
  hold_for(gate, s, std::chrono::milliseconds(5));
  const weir::Milliseconds time = timer.stop();
  EXPECT_GE(time.count(), 4.9f);
  EXPECT_LT(time.count(), 1000.0f * static_cast<float>(liveness_limit.count()));
}

TEST_P(CurrentStream, N4_a_scoped_timer_hands_name_and_time_to_its_sink_once) {
  Gate gate;
  int calls = 0;
  float time = 0;
  std::string name;
  const weir::Stream s(device());
  {
    const weir::ScopedTimer timer(s, "assemble", [&](std::string_view n, weir::Milliseconds t) {
      ++calls;
      name = n;
      time = t.count();
    });
    hold_for(gate, s, std::chrono::milliseconds(2));
  }
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(name, "assemble");
  EXPECT_GE(time, 1.9f);
}

TEST_P(CurrentStream, calls_without_a_stream_use_it) {
  const weir::ScopedDevice on(device());
  const weir::Stream s({.blocking = false, .name = "mine"});
  EXPECT_EQ(s.device(), device());
  EXPECT_EQ(s.name(), "mine");
  const weir::StreamRef before = weir::get_stream();
  weir::set_stream(s);
  Gate gate;
  gate.hold(s);
  auto x = weir::zeros<int>(s, 4);
  std::atomic<bool> called{false};
  weir::launch_blocks({.blocks = 4, .threads = 1}, CountBlocks{}, weir::inout(x));
  weir::host_call([&] { called = true; });
  EXPECT_FALSE(s.done());
  gate.open();
  s.synchronize();
  weir::set_stream(before);
  EXPECT_TRUE(called.load());
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 1));
}

TEST_P(CurrentStream, waits_for_several_streams_and_events_at_once) {
  weir::Stream a(device()), b(device()), s(device()), t(device());
  Gate gate;
  Marker marker;
  gate.hold(b);
  s.wait({a, b});
  mark(s, marker);
  const weir::Event of_a = a.record(), of_b = b.record();
  t.wait({of_a, of_b});
  mark(t, marker);
  a.synchronize();
  EXPECT_FALSE(s.done());
  EXPECT_FALSE(t.done());
  EXPECT_EQ(marker.value(), 0);
  gate.open();
  s.synchronize();
  t.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(CurrentStream, waits_for_several_events_join_a_capture) {
  weir::Stream s(device()), a(device()), b(device());
  Marker marker;
  const weir::Graph graph = weir::capture(s, [&] {
    const weir::Event begin = s.record();
    a.wait(begin);
    b.wait(begin);
    mark(a, marker);
    mark(b, marker);
    const weir::Event of_a = a.record(), of_b = b.record();
    s.wait({of_a, of_b});
    mark(s, marker);
  });
  ASSERT_EQ(graph.size(), 3u);
  EXPECT_EQ(graph.nodes().back().depends.size(), 2u);
}

struct AddOneOnCurrent {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

TEST_P(CurrentStream, a_captured_stream_is_the_current_one_of_its_body) {
  const weir::ScopedDevice on(device());
  const weir::StreamRef before = weir::get_stream(device());
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 100);
  s.synchronize();
  const weir::Graph graph = weir::capture(s, [&] {
    EXPECT_EQ(weir::get_stream(), s);
    weir::launch(100, AddOneOnCurrent{}, weir::inout(x));
  });
  EXPECT_EQ(graph.node_count(), 1u);
  EXPECT_FALSE(graph.empty());
  EXPECT_EQ(x.to_host(), std::vector<int>(100, 0));
  EXPECT_EQ(weir::get_stream(device()), before);
  EXPECT_THROW(weir::capture(s, [] { throw std::out_of_range("mine"); }), std::out_of_range);
  EXPECT_EQ(weir::get_stream(device()), before);
  weir::ScopedCapture scope(s);
  weir::launch(100, AddOneOnCurrent{}, weir::inout(x));
  EXPECT_EQ(scope.finish().size(), 1u);
  EXPECT_EQ(weir::get_stream(device()), before);
}

TEST_P(CurrentStream, a_capture_that_records_nothing_while_its_thread_works_elsewhere_says_so) {
  weir::Stream s(device(), {.name = "captured"});
  weir::Stream other(device(), {.blocking = false, .name = "elsewhere"});
  Marker marker;
  const auto said = [&](auto&& body) {
    testing::internal::CaptureStderr();
    EXPECT_TRUE(weir::capture(s, body).empty());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said([] {}), "");
  struct : weir::Observer {
  } observer;
  for (const bool observed : {false, true}) {
    if (observed) weir::attach(observer, weir::Watch::commands);
    const std::string text = said([&] {
      mark(other, marker);
      mark(other, marker);
    });
    if (observed) weir::detach(observer);
    other.synchronize();
    for (const char* part : {"'captured'", "recorded nothing", "weir::launch at ", "'elsewhere'", "1 more", "empty"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in: " << text;
    }
  }
}

}  // namespace
}  // namespace weir_test
