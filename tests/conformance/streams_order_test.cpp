// Streams run their commands in order, beside each other, and each synchronisation waits for what it names only.
// Rules without a counterpart: R3 (no launch queue that fills up here: see streams_liveness_test.cpp), R6 (no last
// error: a query answers, an Error is thrown).
#include <algorithm>
#include <functional>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class StreamOrder : public AnyDevice {};
ON_EVERY_DEVICE(StreamOrder);

//  s: [hold ......][mark]
TEST_P(StreamOrder, W1_R1_a_launch_returns_before_its_kernel_ends) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  EXPECT_TRUE(returns_while_held(gate, [&] {
    gate.hold(s);
    mark(s, marker);
  }));
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; }));
  EXPECT_FALSE(s.done());
  gate.open();
  s.synchronize();
  EXPECT_TRUE(s.done());
  EXPECT_EQ(marker.value(), 1);
}

//  s: [hold ......][mark]      the mark waits, although the device has nothing else to do
TEST_P(StreamOrder, R2_later_work_of_a_stream_waits_for_earlier_work) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  gate.hold(s);
  mark(s, marker);
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

//  s: [hold ...][1][2][3] ... [200]
TEST_P(StreamOrder, R2_commands_run_in_issue_order) {
  Gate gate;
  Log log;
  weir::Stream s(device());
  gate.hold(s);
  std::vector<int> expected;
  for (int i = 0; i < 200; ++i) {
    log.note(s, i);
    expected.push_back(i);
  }
  gate.open();
  s.synchronize();
  EXPECT_EQ(log.values(), expected);
}

struct AddTo {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] += value; }
};

//  s: [hold ...][fill 1][+= 10][copy to q][host: reads q, writes p][copy from p][+= 100][copy to r]
TEST_P(StreamOrder, R2_R93_commands_of_all_kinds_keep_one_order) {
  constexpr std::size_t n = 1000;
  Gate gate;
  weir::Stream s(device());
  auto x = weir::empty<int>(s, n);
  auto p = weir::empty<int>(weir::pinned, n);
  auto q = weir::empty<int>(weir::pinned, n);
  auto r = weir::empty<int>(weir::pinned, n);
  gate.hold(s);
  weir::fill(s, x, 1);
  weir::launch(s, n, AddTo{}, weir::inout(x), 10);
  weir::copy(s, q, x);
  weir::host_call(
      s,
      [from = q.span(), to = p.span()] {
        std::transform(from.begin(), from.end(), to.begin(), [](int v) { return 2 * v; });
      },
      weir::in(q), weir::out(p));
  weir::copy(s, x, p);
  weir::launch(s, n, AddTo{}, weir::inout(x), 100);
  weir::copy(s, r, x);
  gate.open();
  s.synchronize();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(r[i], 122) << "element " << i;
}

struct CountInside {
  WEIR_KERNEL void operator()(std::size_t, int* inside, int* met) const {
    if (add_to_word(inside, 1) != 0) store_word(met, 1);
    for (int turn = 0; turn < 50; ++turn) load_word(met);
    add_to_word(inside, -1);
  }
};

//  s: [enter, leave][enter, leave] ...      no kernel ever meets another inside
TEST_P(StreamOrder, R5_kernels_of_one_stream_never_overlap) {
  Marker inside, met;
  weir::Stream s(device());
  for (int i = 0; i < 2000; ++i) weir::launch(s, 1, CountInside{}, inside.word(), met.word());
  s.synchronize();
  EXPECT_EQ(met.value(), 0);
  EXPECT_EQ(inside.value(), 0);
}

struct Compare {
  WEIR_KERNEL void operator()(std::size_t, int* count, int expected, int* wrong) const {
    if (load_word(count) != expected) add_to_word(wrong, 1);
  }
};

//  s: [5000 elements count][check][5000 elements count][check] ...
TEST_P(StreamOrder, R2_a_kernel_begins_when_every_element_of_the_one_before_is_done) {
  Marker count, wrong;
  weir::Stream s(device());
  for (int round = 1; round <= 100; ++round) {
    count_up(s, count, 5000);
    weir::launch(s, 1, Compare{}, count.word(), 5000 * round, wrong.word());
  }
  s.synchronize();
  EXPECT_EQ(wrong.value(), 0);
}

struct MeetEachOther {
  WEIR_KERNEL void operator()(std::size_t, int* here, int* there, int* met) const {
    store_word(here, 1);
    if (wait_for_word(there)) add_to_word(met, 1);
  }
};

//  a: [waits for b's kernel]
//  b: [waits for a's kernel]       both end only if they run at one time
TEST_P(StreamOrder, M2_R4_kernels_of_different_streams_run_at_one_time) {
  for (const bool blocking : {true, false}) {
    Marker here, there, met;
    weir::Stream a(device(), {.blocking = blocking});
    weir::Stream b(device(), {.blocking = blocking});
    weir::launch(a, 1, MeetEachOther{}, here.word(), there.word(), met.word());
    weir::launch(b, 1, MeetEachOther{}, there.word(), here.word(), met.word());
    a.synchronize();
    b.synchronize();
    EXPECT_EQ(met.value(), 2) << (blocking ? "blocking" : "non-blocking");
  }
}

//  a: [hold ......]
//  b: [mark]             runs at once: streams other than the legacy one are unordered
TEST_P(StreamOrder, M2_streams_are_not_ordered_among_each_other) {
  Gate gate;
  Marker marker;
  weir::Stream a(device());
  weir::Stream b(device());
  gate.hold(a);
  mark(b, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(gate.is_open());
}

//  a: [hold ......]
//  b: [mark]
TEST_P(StreamOrder, W13_R7_stream_synchronise_waits_for_that_stream_only) {
  Gate gate;
  Marker marker;
  weir::Stream a(device());
  weir::Stream b(device());
  gate.hold(a);
  mark(b, marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { a.synchronize(); }));
}

//  s: [hold ......]      of either kind
TEST_P(StreamOrder, W13_R8_device_synchronise_waits_for_every_stream) {
  for (const bool blocking : {true, false}) {
    Gate gate;
    weir::Stream s(device(), {.blocking = blocking});
    gate.hold(s);
    EXPECT_TRUE(blocks_until_open(device(), gate, [&] { device().synchronize(); })) << blocking;
    EXPECT_TRUE(s.done());
  }
}

//  s: [hold ......]|event
TEST_P(StreamOrder, W13_every_name_of_synchronise_waits) {
  const weir::Device d = device();
  const std::pair<const char*, std::function<void(weir::StreamRef, weir::EventRef)>> calls[] = {
      {"synchronize()", [](weir::StreamRef, weir::EventRef) { weir::synchronize(); }},
      {"synchronize_device(d)", [d](weir::StreamRef, weir::EventRef) { weir::synchronize_device(d); }},
      {"synchronize_device()",
       [d](weir::StreamRef, weir::EventRef) {
         const weir::ScopedDevice scope(d);
         weir::synchronize_device();
       }},
      {"synchronize_stream(s)", [](weir::StreamRef s, weir::EventRef) { weir::synchronize_stream(s); }},
      {"synchronize_event(e)", [](weir::StreamRef, weir::EventRef e) { weir::synchronize_event(e); }},
  };
  for (const auto& [name, call] : calls) {
    Gate gate;
    weir::Stream s(d);
    gate.hold(s);
    const weir::Event e = s.record();
    EXPECT_TRUE(blocks_until_open(d, gate, [&, &wait = call] { wait(s, e); })) << name;
  }
}

//  k: [hold ................]                (non-blocking streams)
//  up: [pinned -> x]  down: [x0 -> pinned]  in: [x0 -> y]  fill: [z]  other: [kernel]     and the host computes
TEST_P(StreamOrder, C1_R50_R51_copies_fills_kernels_and_the_host_go_on_beside_a_kernel) {
  constexpr std::size_t n = 100'000;
  Gate gate;
  Marker marker;
  const weir::StreamOptions free_running{.blocking = false};
  weir::Stream k(device(), free_running), up(device(), free_running), down(device(), free_running);
  weir::Stream inside(device(), free_running), filling(device(), free_running), other(device(), free_running);
  auto x0 = weir::full<int>(k, n, 7);
  auto from = weir::full<int>(weir::pinned, n, 3);
  auto to = weir::zeros<int>(weir::pinned, n);
  auto x = weir::empty<int>(up, n);
  auto y = weir::empty<int>(inside, n);
  auto z = weir::empty<int>(filling, n);
  k.synchronize();
  gate.hold(k);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  weir::copy(up, x, from);
  weir::copy(down, to, x0);
  weir::copy(inside, y, x0);
  weir::fill(filling, z, 9);
  mark(other, marker);
  for (const weir::StreamRef s : {weir::StreamRef(up), weir::StreamRef(down), weir::StreamRef(inside),
                                  weir::StreamRef(filling), weir::StreamRef(other)}) {
    EXPECT_TRUE(eventually([&] { return s.done(); }));
  }
  EXPECT_FALSE(gate.is_open());
  EXPECT_FALSE(k.done());
  EXPECT_EQ(marker.value(), 1);
  EXPECT_EQ(to[n - 1], 7);
}

}  // namespace
}  // namespace weir_test
