// When observed copies, host functions and waits ran: host functions note it themselves, copies stand between events.
#include <gtest/gtest.h>

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cuda/times.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

TEST(TimesOfCalls, are_the_functions_own_and_those_of_copies_are_by_events) {
  weir::Stream s(gpu());
  auto x = weir::zeros<int>(s, 1000);
  const auto host = weir::full(weir::pinned, 1000, 3);
  s.synchronize();
  Times times;
  times.of(s);
  std::chrono::steady_clock::time_point inside;
  weir::copy(s, x, host);
  weir::host_call(s, [&] { inside = std::chrono::steady_clock::now(); });
  s.record();
  s.synchronize();
  ASSERT_TRUE(times.has(3));
  const std::vector<weir::Span> spans = times.all();
  EXPECT_EQ(spans[0].source, Source::events);
  EXPECT_EQ(spans[1].source, Source::host);
  EXPECT_LE(spans[1].begin, inside + spans[0].error)
      << "it comes behind the copy, which may have ended so much earlier";
  EXPECT_GE(spans[1].end, inside);
  EXPECT_EQ(spans[2].begin, spans[2].end);
}

//  s: [gate] |copy| |copy| |copy| ...     with a record behind each
TEST(TimesOfCalls, of_copies_right_behind_each_other_have_one_event_between_them) {
  constexpr std::size_t copies = 10;
  const weir::Stream s(gpu(), {.blocking = false});
  const auto x = weir::zeros<int>(s, 1000);
  const auto host = weir::full(weir::pinned, 1000, 3);
  const weir::Event event(gpu());
  const std::uint64_t at_first = events_recorded_here();
  s.record(event);
  const std::uint64_t by_record =
      events_recorded_here() - at_first;  // in a context of the thread's own it is asked for twice
  s.synchronize();
  Times times;
  times.of(s);
  Gate gate;
  gate.hold(s);
  const std::uint64_t before = events_recorded_here();
  for (std::size_t i = 0; i < copies; ++i) {
    weir::copy(s, x, host);
    s.record(event);
  }
  EXPECT_EQ(events_recorded_here() - before, 1 + copies * (1 + by_record));
  gate.open();
  s.synchronize();
  ASSERT_TRUE(times.has(1 + 2 * copies));
  const std::vector<weir::Span> spans = times.all();
  for (std::size_t i = 3; i < spans.size(); i += 2) {
    EXPECT_GE(spans[i].begin, spans[i - 2].end) << i;
    EXPECT_LE(spans[i].begin, spans[i - 2].end + spans[i].error) << i;
  }
}

/// Another library captures a stream of its own meanwhile, and forbids what is not safe then (R117, R120 to R122).
TEST(TimesOfCalls, of_copies_right_behind_each_other_leave_captures_of_others_alone) {
  const weir::Stream s(gpu(), {.blocking = false});
  const auto x = weir::zeros<int>(s, 1000);
  const auto host = weir::full(weir::pinned, 1000, 3);
  s.synchronize();
  Times times;
  times.of(s);
  Gate gate;
  gate.hold(s);
  weir::copy(s, x, host);
  cudaStream_t theirs = nullptr;
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&theirs, cudaStreamNonBlocking), cudaSuccess);
  EXPECT_EQ(cudaStreamBeginCapture(theirs, cudaStreamCaptureModeGlobal), cudaSuccess);
  weir::copy(s, x, host);
  EXPECT_EQ(cudaStreamEndCapture(theirs, &graph), cudaSuccess);
  gate.open();
  s.synchronize();
  EXPECT_TRUE(times.has(3));
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(theirs), cudaSuccess);
}

//  s: [gate] |copy| wait for t |copy|      t: [another gate]      or what else may stand between two copies
TEST(TimesOfCalls, of_copies_with_something_between_them_have_events_of_their_own) {
  for (const int what : {0, 1, 2, 3, 4, 5}) {
    SCOPED_TRACE(what);
    const bool blocking = what == 3;
    const weir::Stream s(gpu(), {.blocking = blocking}), t(gpu(), {.blocking = false});
    const auto x = weir::zeros<int>(s, 1000);
    const auto host = weir::full(weir::pinned, 1000, 3);
    if (what == 5) static_cast<void>(s.native());
    s.synchronize();
    Times times;
    times.of(s);
    Gate gate, other;
    gate.hold(s);
    weir::copy(s, x, host);
    if (what == 0) {
      other.hold(t);
      s.wait(t.record());
    }
    if (what == 1) other.hold(s);
    if (what == 2) other.hold_by_host_call(s);
    if (what == 3) other.hold(weir::legacy_stream(gpu()));
    const std::uint64_t before = events_recorded_here();
    if (what == 4) {
      gate.open();
      s.synchronize();  // a pause
    }
    weir::copy(s, x, host);
    EXPECT_EQ(events_recorded_here() - before, 2u);
    gate.open();
    std::chrono::steady_clock::time_point opened;
    if (what < 4) {
      EXPECT_TRUE(eventually([&] { return other.begun() == 1; }));
      opened = std::chrono::steady_clock::now();
    }
    other.open();
    s.synchronize();
    ASSERT_TRUE(eventually([&] {
      return !times.all().empty() && times.all().back().source == Source::events &&
             times.all().size() >= (what < 3 ? 4u : 3u);
    }));
    const weir::Span last = times.all().back();
    EXPECT_GE(last.begin + last.error, opened);
  }
}

//  held: [hold ......]|e      s: wait(e) [call] wait(e) [call] ...
TEST(TimesOfCalls, R213_hundreds_behind_waits_return) {
  Times times;
  Gate gate;
  weir::Stream held(gpu()), s(gpu());
  gate.hold(held);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const weir::Event e = held.record();
    for (int i = 0; i < 300; ++i) {
      s.wait(e);
      weir::host_call(s, [] {});
    }
  }));
  gate.open();
  s.synchronize();
}

constexpr std::size_t more_than_pools_keep = (std::size_t{1} << 30) + 1;

//  s: [call]   the host waits   s: [end of memory ...
TEST(TimesOfCalls, that_the_host_has_waited_for_are_told_while_the_stream_ends_memory) {
  for (const bool by_device : {false, true}) {
    const weir::Stream s = started_stream();
    auto x = weir::empty<char>(s, more_than_pools_keep);
    gpu().synchronize();
    auto times = std::make_unique<Times>();
    times->of(s);
    weir::host_call(s, [] {});
    by_device ? gpu().synchronize() : s.synchronize();
    std::optional<fake_cuda::Pause> held(std::in_place, 0);
    x.free();
    ASSERT_FALSE(s.done());
    weir::detach(*times);
    EXPECT_EQ(times->all().size(), 1u);
    held.reset();
  }
}

}  // namespace
}  // namespace weir_test
