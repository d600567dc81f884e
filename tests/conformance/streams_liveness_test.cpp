// Work makes progress by itself: nobody needs to wait for it, and held streams starve no others.
// Better than CUDA: no launch blocks on a full queue (R3, R208), and no stream waits behind another one's held work
// because they share a hardware queue (R182).
#include <chrono>
#include <thread>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class Liveness : public AnyDevice {};
ON_EVERY_DEVICE(Liveness);

//  s: [mark]      and nobody synchronises anything; time and again, from sleep
TEST_P(Liveness, fire_and_forget) {
  Marker marker;
  weir::Stream s(device());
  for (int round = 1; round <= 300; ++round) {
    mark(s, marker, round);
    ASSERT_TRUE(eventually([&] { return marker.value() == round; })) << round;
    if (round % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));  // lets the workers fall asleep
  }
}

//  a: [+1]|e    b: wait(e) [+1]|f    a: wait(f) [+1] ...      to its end without a host
TEST_P(Liveness, fire_and_forget_through_events) {
  Marker count;
  weir::Stream a(device()), b(device());
  for (int round = 0; round < 500; ++round) {
    count_up(a, count);
    b.wait(a.record());
    count_up(b, count);
    a.wait(b.record());
  }
  EXPECT_TRUE(eventually([&] { return count.value() == 1000; }));
}

TEST_P(Liveness, fire_and_forget_with_thousands_of_elements) {
  Marker count;
  weir::Stream s(device());
  for (int round = 1; round <= 50; ++round) {
    count_up(s, count, 10'000);
    ASSERT_TRUE(eventually([&] { return count.value() == 10'000 * round; })) << round;
  }
}

TEST_P(Liveness, a_thousand_streams_with_work) {
  Marker count;
  std::vector<weir::Stream> streams;
  for (int i = 0; i < 1000; ++i) streams.emplace_back(device(), weir::StreamOptions{.blocking = i % 2 == 0});
  for (int round = 0; round < 10; ++round) {
    for (const weir::Stream& s : streams) count_up(s, count);
  }
  EXPECT_TRUE(eventually([&] { return count.value() == 10'000; }));
  for (const weir::Stream& s : streams) s.synchronize();
}

//  stream i: wait(event of stream i-1) [+1]|event      1,000 in a row, held at the head
TEST_P(Liveness, a_chain_through_a_thousand_streams) {
  const int length = on("cpu") ? 1000 : 100;  // behind a held kernel the driver takes about 1,000 commands (R3)
  Gate gate;
  Log log(1000);
  std::vector<weir::Stream> streams;
  std::vector<int> expected;
  for (int i = 0; i < length; ++i) {
    const weir::Stream& s = streams.emplace_back(device());
    if (i == 0) {
      gate.hold(s);
    } else {
      s.wait(streams[static_cast<std::size_t>(i - 1)]);
    }
    log.note(s, i);
    expected.push_back(i);
  }
  gate.open();
  EXPECT_TRUE(eventually([&] { return log.size() == length; }));
  EXPECT_EQ(log.values(), expected);
}

//  40 streams: [hold ......][+1]
//  fresh:      [mark]                 runs at once
TEST_P(Liveness, R182_many_held_streams_do_not_hold_up_a_fresh_one) {
  if (!on("cpu")) GTEST_SKIP() << "streams share hardware queues here (R182)";
  Gate gate;
  Marker count, marker;
  std::vector<weir::Stream> held;
  for (int i = 0; i < 40; ++i) {
    const weir::Stream& s = held.emplace_back(device(), weir::StreamOptions{.blocking = false});
    gate.hold(s);
    count_up(s, count);
  }
  EXPECT_TRUE(eventually([&] { return gate.begun() == 40; }))
      << "only " << gate.begun() << " of 40 kernels run at one time";
  for (int round = 1; round <= 40; ++round) {
    weir::Stream fresh(device(), {.blocking = false});
    mark(fresh, marker, round);
    EXPECT_TRUE(eventually([&] { return marker.value() == round; })) << round;
    EXPECT_TRUE(returns_while_held(gate, [&] { fresh.synchronize(); }));
  }
  EXPECT_EQ(count.value(), 0);
  gate.open();
  device().synchronize();
  EXPECT_EQ(count.value(), 40);
}

//  40 streams: [host: held ......]      the same with host functions
TEST_P(Liveness, many_held_host_functions_do_not_hold_up_a_fresh_stream) {
  if (!on("cpu")) GTEST_SKIP() << "host functions may be serialised here (R87)";
  Gate gate;
  Marker marker;
  std::vector<weir::Stream> held;
  for (int i = 0; i < 40; ++i)
    gate.hold_by_host_call(held.emplace_back(device(), weir::StreamOptions{.blocking = false}));
  weir::Stream fresh(device(), {.blocking = false});
  mark(fresh, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
  EXPECT_FALSE(gate.is_open());
}

//  s: [hold ......][+1] x 20,000       every launch returns
TEST_P(Liveness, R3_launches_behind_held_work_never_block) {
  if (!on("cpu")) GTEST_SKIP() << "the driver's launch queue is finite (R3)";
  constexpr int launches = 20'000;
  Gate gate;
  Marker count;
  weir::Stream s(device());
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < launches; ++i) count_up(s, count);
  }));
  EXPECT_EQ(count.value(), 0);
  gate.open();
  s.synchronize();
  EXPECT_EQ(count.value(), launches);
}

//  s: [hold ......] then, 5,000 times: [fill][copy][host function][record][wait]
TEST_P(Liveness, R3_commands_of_all_kinds_behind_held_work_never_block) {
  if (!on("cpu")) GTEST_SKIP() << "the driver's launch queue is finite (R3, R213)";
  Gate gate;
  Marker count;
  weir::Stream s(device()), other(device());
  auto x = weir::zeros<int>(s, 10);
  auto p = weir::zeros<int>(weir::pinned, 10);
  gate.hold(s);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < 5000; ++i) {
      weir::fill(s, x, i);
      weir::copy(s, p, x);
      weir::host_call(s, [word = count.word()] { add_to_word(word, 1); });
      other.wait(s.record());
      s.wait(other.record());
    }
  }));
  gate.open();
  s.synchronize();
  EXPECT_EQ(count.value(), 5000);
  EXPECT_EQ(p[9], 4999);
}

//  s: 1,000,000 launches, one wait
TEST_P(Liveness, a_million_launches) {
  Marker count;
  weir::Stream s(device());
  const int launches = 1'000'000 / (patience * patience);
  for (int i = 0; i < launches; ++i) count_up(s, count);
  s.synchronize();
  EXPECT_EQ(count.value(), launches);
}

}  // namespace
}  // namespace weir_test
