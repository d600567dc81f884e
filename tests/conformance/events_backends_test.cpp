// Waits between devices of different backends, in both directions.
#include <vector>

#include "support/child.hpp"
#include "support/waits_across.hpp"

namespace weir_test {
namespace {

void wait_by_the_call(weir::StreamRef stream, weir::EventRef event) { stream.wait(event); }

/// The first devices of every two backends, both ways.
std::vector<Across> pairs_of_backends() {
  std::vector<Across> pairs;
  for (const std::string& waiting : backends()) {
    for (const std::string& recording : backends()) {
      if (waiting == recording) continue;
      pairs.push_back({weir::devices(waiting).front(), weir::devices(recording).front(), &wait_by_the_call});
    }
  }
  const weir::Device only = weir::devices().front();
  if (pairs.empty()) {
    pairs.push_back({only, only, nullptr,
                     "needs devices of two backends, and there is one: no NVIDIA GPU, or a build without CUDA"});
  }
  return pairs;
}

//  a: [hold ......]
//  b:  wait(a) [mark]
TEST_P(WaitsAcross, W14_a_stream_waits_for_a_stream_of_another_backend) {
  Gate gate;
  Marker marker;
  weir::Stream a(recording()), b(waiting());
  gate.hold(a);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.wait(a); }));
  mark(b, marker);
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [0]   [2] ...
//  b:    [1]   [3] ...      each waits for the other
TEST_P(WaitsAcross, P3_streams_of_two_backends_take_turns) {
  constexpr int hops = 1000;
  Log log(hops);
  weir::Stream a(recording()), b(waiting());
  std::vector<int> expected;
  for (int i = 0; i < hops; i += 2) {
    log.note(a, i);
    b.wait(a);
    log.note(b, i + 1);
    a.wait(b);
    expected.insert(expected.end(), {i, i + 1});
  }
  a.synchronize();
  EXPECT_EQ(log.values(), expected);
}

struct FillWith {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] = value; }
};

//  a: [x = value]|e          x in pinned memory
//  b:              wait(e) [copy x to y, of b's device]
TEST_P(WaitsAcross, what_the_event_stands_for_is_visible_behind_the_wait) {
  constexpr std::size_t n = 100'000;
  weir::Stream a(recording()), b(waiting());
  auto x = weir::zeros<int>(weir::pinned, n);
  auto y = weir::zeros<int>(b, n);
  auto z = weir::zeros<int>(weir::pinned, n);
  for (int round = 1; round <= 20; ++round) {
    weir::launch(a, n, FillWith{}, weir::out(x), round);
    b.wait(a);
    weir::copy(b, y, x);
    weir::copy(b, z, y);
    a.wait(b);
    b.synchronize();
    for (std::size_t i = 0; i < n; i += 997) ASSERT_EQ(z.data()[i], round) << i;
  }
  a.synchronize();
}

//  a: [hold ......][writes a half of x]
//  b:          wait(a)       [writes the other]     x, in pinned memory, is destroyed
TEST_P(WaitsAcross, R56_destroying_an_array_that_two_backends_use_does_not_wait) {
  constexpr std::size_t n = 1000;
  for (const bool waiting_first : {false, true}) {
    Gate gate;
    weir::Stream a(recording()), b(waiting());
    {
      auto x = weir::zeros<int>(weir::pinned, n);
      const auto use = [&](weir::StreamRef s) {
        const std::size_t begin = s == a ? 0 : n / 2;
        weir::launch(s, n / 2, FillWith{}, weir::out(x.slice(begin, begin + n / 2)), 1);
      };
      gate.hold(a);
      if (!waiting_first) use(a);
      b.wait(a);
      use(b);
      if (waiting_first) use(a);
      EXPECT_TRUE(returns_while_held(gate, [&] { x.free(); }));
    }
    gate.open();
    b.synchronize();
    a.synchronize();
  }
}

//  a: [hold ......]|e |e |e ...
//  b:  wait(e) wait(e) ...  [mark]       none of them holds up the host
TEST_P(WaitsAcross, R213_hundreds_of_waits_for_a_held_stream_return) {
  Gate gate;
  Marker marker;
  weir::Stream a(recording()), b(waiting()), other(recording());
  gate.hold(a);
  const int waits = waiting().backend() == "cpu" ? 1000 : 500;  // a GPU's stream has room for 1,021 (R3)
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const weir::Event e = a.record();
    for (int i = 0; i < waits; ++i) b.wait(e);
    for (int i = 0; i < 300; ++i) b.wait(a);
    mark(b, marker);
    mark(other, marker);  // and its backend goes on
    other.synchronize();
    mark(other, marker, 0);
    other.synchronize();
  }));
  EXPECT_TRUE(stays(recording(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  a: [hold 1 ..]|e
//  c: [hold 2 ..........]|e again
//  b:  wait(e) [mark]                  for the record that there was
TEST_P(WaitsAcross, R70_a_later_record_of_the_event_does_not_disturb_a_wait) {
  Gate first, second;
  Marker marker;
  weir::Stream a(recording()), c(recording()), b(waiting());
  weir::Event e(recording());
  first.hold(a);
  second.hold(c);
  for (int round = 0; round < 3; ++round) {
    a.record(e);
    b.wait(e);
    c.record(e);
  }
  mark(b, marker);
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  first.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(e.done());
  second.open();
  e.synchronize();
  b.synchronize();
}

WEIR_SCENE(waits_between_backends_are_pending) {
  for (const Across& across : pairs_of_backends()) {
    if (across.missing == nullptr) leave_waits_pending(across);
  }
}

TEST_P(WaitsAcross, C7_a_process_ends_with_waits_between_backends_pending) {
  for (int round = 0; round < 5; ++round) ASSERT_TRUE(ended_well(play("waits_between_backends_are_pending")));
}

}  // namespace

WAITS_ACROSS(pairs_of_backends());

}  // namespace weir_test
