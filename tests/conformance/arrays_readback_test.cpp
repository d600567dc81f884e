// Reading an array back needs no other wait: it happens on the legacy stream (W15).
#include <atomic>
#include <thread>

#include "arrays_support.hpp"

using namespace weir_test;

class ArrayReadback : public AnyDevice {};
ON_EVERY_DEVICE(ArrayReadback);

// stream: [hold]--[a = 0, 1, ...]
// legacy:                         [read a]     host waits here
TEST_P(ArrayReadback, waits_for_the_work_of_a_blocking_stream) {
  weir::Stream stream(device());
  auto a = weir::zeros<int>(stream, 1000);
  Gate gate;
  gate.hold(stream);
  weir::launch(stream, 1000, Count{}, weir::out(a), 5);
  std::vector<int> values;
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { values = a.to_host(); }));
  EXPECT_EQ(values, counted(1000, 5));
}

// s:      [a = 7]
// t:      [hold]----------
// legacy:                 [read a]     every blocking stream, not just the array's own
TEST_P(ArrayReadback, waits_for_all_blocking_streams) {
  weir::Stream s(device());
  weir::Stream t(device());
  const auto a = weir::full<int>(s, 100, 7);
  s.synchronize();
  Gate gate;
  gate.hold(t);
  std::vector<int> values;
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { values = a.to_host(); }));
  EXPECT_EQ(values, std::vector<int>(100, 7));
}

// free:   [hold]------------------
// legacy:        [read a]
TEST_P(ArrayReadback, does_not_wait_for_non_blocking_streams) {
  weir::Stream s(device());
  weir::Stream held = free_stream(device(), "held");
  const auto a = weir::full<int>(s, 100, 7);
  Gate gate;
  gate.hold(held);
  std::vector<int> values;
  EXPECT_TRUE(returns_while_held(gate, [&] { values = a.to_host(); }));
  EXPECT_EQ(values, std::vector<int>(100, 7));
}

// free:   [hold]--[a = 0, 1, ...]
// legacy:                         [read a]     the array knows that the stream was given it
TEST_P(ArrayReadback, waits_for_a_non_blocking_stream_that_was_given_the_array) {
  weir::Stream home(device());
  weir::Stream writer = free_stream(device(), "writer");
  auto a = weir::zeros<int>(home, 1000);
  home.synchronize();
  Gate gate;
  gate.hold(writer);
  weir::launch(writer, 1000, Count{}, weir::out(a), 5);
  std::vector<int> values;
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { values = a.to_host(); }));
  EXPECT_EQ(values, counted(1000, 5));
}

// free:   [hold]----------[a = 0, 1, ...]
// other:                  [mark]             a blocking stream is not held because somebody reads
TEST_P(ArrayReadback, holds_no_other_stream_while_it_waits_for_a_non_blocking_one) {
  weir::Stream writer = free_stream(device(), "writer");
  weir::Stream other(device());
  auto a = weir::zeros<int>(writer, 100);
  Gate gate;
  gate.hold(writer);
  std::atomic<bool> reads{false};
  std::thread reader([&] {
    reads = true;
    a.to_host();
  });
  EXPECT_TRUE(eventually([&] { return reads.load(); }));
  const Marker count;
  int wanted = 0;
  do {  // while the reader comes to its wait
    count_up(other, count);
    ++wanted;
  } while (eventually([&] { return count.value() == wanted; }) && wanted < 200);
  EXPECT_EQ(count.value(), wanted);
  gate.open();
  reader.join();
}

// gone:   [a = 9]
// others:         [hold]------   one of them has what the gone stream ran on
TEST_P(ArrayReadback, waits_for_no_stream_that_came_behind_one_that_is_gone) {
  weir::Stream home(device());
  const auto a = weir::zeros<int>(home, 100);
  {
    const weir::Stream gone = free_stream(device(), "gone");
    gone.wait(home);
    weir::fill(gone, a, 9);
    gone.synchronize();
  }
  std::vector<weir::Stream> others;
  Gate gate;
  for (int i = 0; i < 4; ++i) gate.hold(others.emplace_back(free_stream(device(), "other")));
  std::vector<int> values;
  EXPECT_TRUE(returns_while_held(gate, [&] { values = a.to_host(); }));
  EXPECT_EQ(values, std::vector<int>(100, 9));
}

TEST_P(ArrayReadback, leaves_another_threads_capture_alone) {
  weir::Stream captured(device());
  weir::Stream home(device());
  auto a = weir::zeros<int>(home, 100);
  weir::fill(weir::legacy_stream(device()), a, 7);
  Marker marker;
  weir::capture_begin(captured);  // a blocking stream: nobody may use the legacy stream
  mark(captured, marker);
  std::vector<int> values;
  std::thread([&] { values = a.to_host(); }).join();
  const weir::Graph graph = weir::capture_end(captured);
  EXPECT_EQ(values, std::vector<int>(100, 7));
  EXPECT_EQ(graph.node_count(), 1u);
}

// t:      [hold]-----[a = 9]
// s:      [a = 7][read a]        nothing but the stream's own order
TEST_P(ArrayReadback, on_a_stream_waits_for_that_stream_alone) {
  weir::Stream s = free_stream(device(), "s");
  weir::Stream t(device());
  auto a = weir::full<int>(s, 100, 7);
  Gate gate;
  gate.hold(t);
  std::vector<int> values;
  EXPECT_TRUE(returns_while_held(gate, [&] { values = a.to_host(s); }));
  EXPECT_EQ(values, std::vector<int>(100, 7));
  Gate own;
  own.hold(s);
  weir::fill(s, a, 8);
  EXPECT_TRUE(blocks_until_open(device(), own, [&] { values = a.to_host(s); }));
  EXPECT_EQ(values, std::vector<int>(100, 8));
}

TEST_P(ArrayReadback, on_a_stream_that_captures_is_an_error) {
  weir::Stream s(device());
  const auto a = weir::zeros<int>(s, 8);
  weir::capture_begin(s);
  EXPECT_TRUE(fails_with(weir::Errc::capture_unsupported, [&] { a.to_host(s); }, {"weir::Array::to_host"}));
  EXPECT_TRUE(fails_with(weir::Errc::capture_invalidated, [&] { weir::capture_end(s); }));
}

TEST_P(ArrayReadback, of_slices_steps_and_transposed_arrays_is_in_the_order_of_their_indices) {
  weir::Stream stream(device());
  auto a = weir::empty<int>(stream, {4, 5});
  weir::launch(stream, 20, Count{}, weir::out(a.reshape(20)), 0);
  EXPECT_EQ(a.slice(1, 3).to_host(), counted(10, 5));
  EXPECT_EQ(a.slice({{0, 4, 3}, {1, 5, 2}}).to_host(), (std::vector<int>{1, 3, 16, 18}));
  EXPECT_EQ(a.transposed().slice(0, 2).to_host(), (std::vector<int>{0, 5, 10, 15, 1, 6, 11, 16}));
}

TEST_P(ArrayReadback, of_host_memory_works_too) {
  EXPECT_EQ(weir::from(weir::pinned, counted(10)).to_host(), counted(10));
  EXPECT_EQ(weir::from(weir::host, counted(10)).slice({{1, 10, 4}}).to_host(), (std::vector<int>{1, 5, 9}));
}

// stream: [hold]--[a = 0, 1, ...][a -> pinned]
// the pinned copy is asynchronous: what W15 saves the user from
TEST_P(ArrayReadback, is_what_an_asynchronous_copy_is_not) {
  weir::Stream stream(device());
  auto a = weir::zeros<int>(stream, 100);
  auto result = weir::full<int>(weir::pinned, 100, -1);
  Gate gate;
  gate.hold(stream);
  weir::launch(stream, 100, Count{}, weir::out(a), 0);
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::copy(stream, result, a); }));
  EXPECT_EQ(host_values(result), std::vector<int>(100, -1));
  gate.open();
  EXPECT_EQ(a.to_host(), counted(100));
  EXPECT_EQ(host_values(result), counted(100));
}
