// What goes wrong is an error, on every rank, and nothing hangs.
#include <chrono>
#include <functional>
#include <span>
#include <stdexcept>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using std::chrono::milliseconds;
using weir::Errc;
using weir::in;
using weir::inout;
using weir::out;

class CollectivesFailures : public testing::Test {
 protected:
  /// The communicator has failed for good, on both ranks.
  void expect_broken(Errc code, const std::vector<weir::Communicator>& comms) {
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_TRUE(fails_with(code, [&] { weir::barrier(ranks.streams[r], comms[r]); }, {"failed before", "grads"}));
    }
  }
  /// Of the same devices, with little patience: enough for this thread to make its calls.
  static std::vector<weir::Communicator> impatient(milliseconds timeout) {
    return weir::communicators(devices_of(2), {.name = "grads", .timeout = timeout});
  }

  const Ranks ranks{2, {.name = "grads"}};
  const std::vector<weir::Array<int>> x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r; });
  const weir::Stream& s0 = ranks.streams[0];
  const weir::Stream& s1 = ranks.streams[1];
  const weir::Communicator& c0 = ranks.comms[0];
  const weir::Communicator& c1 = ranks.comms[1];
};

TEST_F(CollectivesFailures, another_call_count_type_operation_or_root_is_found_at_the_call) {
  const auto longer = ranks.zeros<int>(9);
  const auto other = ranks.zeros<float>(8);
  const std::vector<std::function<void(const weir::Stream&, const weir::Communicator&)>> wrong = {
      [&](const auto& s, const auto& c) { weir::barrier(s, c); },
      [&](const auto& s, const auto& c) { weir::broadcast(s, c, inout(x[1])); },
      [&](const auto& s, const auto& c) { weir::all_reduce(s, c, inout(longer[1])); },
      [&](const auto& s, const auto& c) { weir::all_reduce(s, c, inout(other[1])); },
      [&](const auto& s, const auto& c) { weir::all_reduce(s, c, inout(x[1]), weir::Maximum{}); },
  };
  for (const auto& call : wrong) {
    const auto comms = weir::communicators(devices_of(2), {.name = "losses"});
    weir::all_reduce(s0, comms[0], inout(x[0]));
    EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { call(s1, comms[1]); },
                           {"'losses'", "rank 1", "all_reduce of 8 x int, Plus", "failures_test.cpp"}));
    EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s0.synchronize(); }, {"weir::all_reduce", "rank 0 of 2"}));
    s1.synchronize();
    EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { weir::barrier(s0, comms[0]); }, {"failed before"}));
    // Nobody failed by itself: all go on.
    const auto again = comms[0].without_failed();
    EXPECT_EQ(again.size(), 2);
  }
  weir::broadcast(s0, c0, inout(x[0]), 0);
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { weir::broadcast(s1, c1, inout(x[1]), 1); }, {"root 1"}));
  EXPECT_TRUE(error_of([&] { s0.synchronize(); }));
  expect_broken(Errc::collective_mismatch, ranks.comms);
}

TEST_F(CollectivesFailures, a_rank_that_does_not_call_in_time) {
  const auto comms = impatient(milliseconds(50));
  const Marker after;
  weir::all_reduce(s0, comms[0], inout(x[0]));
  mark(s0, after);
  EXPECT_TRUE(fails_with(Errc::collective_timeout, [&] { s0.synchronize(); },
                         {"0.05 s", "rank 1 (it did not call)", "rank 0 (" + name_of(0) + "): all_reduce of 8 x int",
                          "failures_test.cpp", "rank 1 (" + name_of(1) + "): has called nothing"}));
  EXPECT_EQ(after.value(), 0);  // nothing behind it ran on bad data
  expect_broken(Errc::collective_timeout, comms);
  const weir::Communicator alone = comms[0].without_failed();
  EXPECT_EQ(alone.size(), 1);
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { static_cast<void>(comms[1].without_failed()); }));
  weir::all_reduce(s0, alone, inout(x[0]));
  s0.synchronize();
}

TEST_F(CollectivesFailures, a_rank_whose_stream_does_not_come_in_time_and_then_does) {
  const auto comms = impatient(milliseconds(300));
  Gate gate;
  gate.hold(s1);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));  // by a worker: this thread would run it when it waits
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], comms[r], inout(x[r]), weir::Maximum{});
  EXPECT_TRUE(fails_with(Errc::collective_timeout, [&] { s0.synchronize(); }, {"its stream did not come"}));
  gate.open();
  EXPECT_TRUE(fails_with(Errc::collective_timeout, [&] { s1.synchronize(); }));
  if (on_cpu()) {                                       // what NCCL leaves behind nobody knows
    EXPECT_EQ(x[0].to_host(), std::vector<int>(8, 0));  // untouched
  }
}

TEST_F(CollectivesFailures, a_stream_that_failed_before_it_came) {
  const Marker after;
  weir::host_call(s1, [] { throw std::runtime_error("the pipe burst"); });
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  mark(s0, after);
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { s0.synchronize(); }, {"rank 1 of 2 failed", "the pipe burst"}));
  EXPECT_TRUE(fails_with(Errc::host_function_failed, [&] { s1.synchronize(); }, {"the pipe burst"}));
  EXPECT_EQ(after.value(), 0);
  expect_broken(Errc::rank_failed, ranks.comms);
  EXPECT_EQ(c0.without_failed().size(), 1);
}

TEST_F(CollectivesFailures, a_communicator_that_is_gone_before_it_called) {
  auto comms = weir::communicators(devices_of(2));
  weir::barrier(s0, comms[0]);
  comms.pop_back();
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { s0.synchronize(); }, {"rank 1 was destroyed"}));
  auto later = weir::communicators(devices_of(2));
  later.pop_back();
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { weir::barrier(s0, later[0]); }, {"rank 1 was destroyed"}));
  s0.synchronize();
}

TEST_F(CollectivesFailures, abort_ends_what_is_pending_at_once) {
  const auto comms = weir::communicators(devices_of(2));
  weir::send(s0, comms[0], in(x[0]), 1);
  weir::barrier(s1, comms[1]);
  comms[1].abort();
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { s0.synchronize(); }, {"rank 1 aborted", "failures_test.cpp"}));
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { s1.synchronize(); }, {"rank 1 aborted"}));
  EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { weir::barrier(s1, comms[1]); }, {"aborted"}));
}

//  s0: |A|B|   s1: |B|A|
TEST_F(CollectivesFailures, two_communicators_in_opposite_order_are_a_mismatch_with_both_lines) {
  const auto a = weir::communicators(devices_of(2), {.name = "a"});
  const auto b = weir::communicators(devices_of(2), {.name = "b"});
  const Marker after;
  weir::barrier(s0, a[0]);
  weir::barrier(s0, b[0]);
  mark(s0, after);
  weir::barrier(s1, b[1]);
  weir::barrier(s1, a[1]);
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s0.synchronize(); },
                         {"each waits for another", "rank 0 calls barrier", "of 'b' behind barrier", "of 'a'",
                          "rank 1 calls barrier", "failures_test.cpp"}));
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s1.synchronize(); }));
  EXPECT_EQ(after.value(), 0);
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { weir::barrier(s0, a[0]); }));
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { weir::barrier(s0, b[0]); }));
}

//  s0: |A|B|C   s1: |B|C|A|   each of three communicators waits for another one; D, beside them, does not
TEST_F(CollectivesFailures, a_circle_of_three_leaves_a_fourth_alone) {
  std::vector<std::vector<weir::Communicator>> c;
  for (const char* name : {"a", "b", "c", "d"}) {
    c.push_back(weir::communicators(devices_of(2), {.name = name}));
  }
  const weir::Stream t0(device_of(0)), t1(device_of(1));
  // Once before something is held: GPUs make what they need of a communicator when they are idle.
  for (const auto& one : c) {
    weir::barrier(t0, one[0]);
    weir::barrier(t1, one[1]);
  }
  t0.synchronize();
  t1.synchronize();
  Gate gate;
  gate.hold(t1);
  weir::barrier(t0, c[3][0]);
  for (const std::size_t i : {0, 1, 2}) weir::barrier(s0, c[i][0]);
  for (const std::size_t i : {1, 2, 0}) weir::barrier(s1, c[i][1]);
  weir::barrier(t1, c[3][1]);
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s0.synchronize(); }));
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s1.synchronize(); }));
  gate.open();
  t0.synchronize();
  t1.synchronize();
}

//  s0: |send|receive|   s1: |send|receive|
TEST_F(CollectivesFailures, ranks_that_send_to_each_other_without_a_group_are_a_mismatch) {
  weir::send(s0, c0, in(x[0]), 1);
  weir::receive(s0, c0, out(x[0]), 1);
  weir::send(s1, c1, in(x[1]), 0);
  weir::receive(s1, c1, out(x[1]), 0);
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s0.synchronize(); },
                         {"rank 0 calls receive", "behind send", "rank 1 calls receive"}));
  EXPECT_TRUE(fails_with(Errc::collective_mismatch, [&] { s1.synchronize(); }));
}

TEST_F(CollectivesFailures, a_group_with_a_call_that_is_refused_makes_none) {
  {
    weir::CollectiveGroup group;
    weir::barrier(s0, c0);
    EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::broadcast(s0, c0, inout(x[0]), 7); }));
  }
  weir::capture_begin(s0);
  {
    weir::CollectiveGroup group;
    EXPECT_TRUE(fails_with(Errc::capture_unsupported, [&] { weir::barrier(s0, c0); }, {"group"}));
  }
  static_cast<void>(weir::capture_end(s0));
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  ranks.synchronize();
}

TEST_F(CollectivesFailures, a_group_that_an_exception_leaves_makes_no_call) {
  s0.synchronize();
  try {
    weir::CollectiveGroup group;
    weir::barrier(s0, c0);
    throw std::runtime_error("on purpose");
  } catch (const std::runtime_error&) {
    EXPECT_TRUE(s0.done()) << "a part of it waits for a rank that does not come";
  }
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  ranks.synchronize();
}

// Bytes of a transposed square are those of the square, and its elements come in another order.
TEST_F(CollectivesFailures, the_same_memory_in_another_order_is_not_in_place) {
  const auto both = [&](const auto& x, const auto& y) {
    EXPECT_TRUE(fails_with(Errc::overlapping, [&] { weir::all_reduce(s0, c0, in(x), out(y)); }, {"share memory"}));
    EXPECT_TRUE(fails_with(Errc::overlapping, [&] { weir::reduce(s0, c0, in(x), out(y), weir::Plus{}, 0); }));
  };
  const auto square = weir::zeros<int>(s0, {4, 4});
  both(square, square.transposed());
  const auto wide = weir::zeros<int>(s0, {4, 6});
  both(wide.slice({{0, 4}, {0, 4}}), wide.slice({{0, 4}, {0, 4}}).transposed());
  both(wide.slice({{0, 2}, {0, 4}}), wide.slice({{0, 4}, {0, 2}}));
}

TEST_F(CollectivesFailures, the_same_elements_in_another_shape_are_in_place) {
  WEIR_NEEDS_RANKS(2u);
  std::vector<weir::Array<int>> square, wide;
  for (const weir::Stream& s : ranks.streams) {
    square.push_back(weir::full<int>(s, {4, 4}, 3));
    wide.push_back(weir::full<int>(s, {4, 6}, 3));
  }
  for (std::size_t r = 0; r < 2; ++r) {
    const auto columns = wide[r].slice({{0, 4}, {1, 3}});
    weir::all_reduce(ranks.streams[r], ranks.comms[r], in(square[r]), out(square[r].reshape(16)));
    weir::all_reduce(ranks.streams[r], ranks.comms[r], in(columns), out(columns));
  }
  EXPECT_EQ(square[1].reshape(16).to_host(), std::vector<int>(16, 6));
  EXPECT_EQ(wide[0].reshape(24).to_host()[13], 6);
  EXPECT_EQ(wide[0].reshape(24).to_host()[12], 3);
}

TEST_F(CollectivesFailures, counts_of_an_all_to_all_that_are_not_those_of_its_arrays) {
  const auto all_to_all = [&](std::vector<std::size_t> send, std::vector<std::size_t> receive) {
    weir::all_to_all(s0, c0, in(x[0]), std::span<const std::size_t>(send), out(x[1]),
                     std::span<const std::size_t>(receive));
  };
  const std::size_t huge = std::size_t{0} - 8;  // sums of these wrap to what fits
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { all_to_all({huge, 16}, {4, 4}); }, {"8 elements", "rank 0"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { all_to_all({4, 4}, {16, huge}); }, {"the result"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { all_to_all({4, 3}, {4, 4}); }, {"8 elements, and the counts 7"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { all_to_all({4, 5}, {4, 4}); }, {"8 elements", "rank 1, 5"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { all_to_all({8}, {4, 4}); }, {"the list of send counts"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { all_to_all({}, {4, 4}); }, {"the list of send counts"}));
}

TEST_F(CollectivesFailures, calls_that_make_no_sense_change_nothing) {
  const auto longer = ranks.zeros<int>(9);
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { weir::all_reduce(s0, c0, in(x[0]), out(longer[0])); },
                         {"weir::all_reduce", "9 elements, and 8 are needed", "failures_test.cpp"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { weir::all_gather(s0, c0, in(x[0]), out(longer[0])); }));
  EXPECT_TRUE(fails_with(Errc::wrong_shape, [&] { weir::all_to_all(s0, c0, in(longer[0]), out(longer[1])); }));
  EXPECT_TRUE(fails_with(Errc::wrong_device, [&] { weir::barrier(s1, c0); }, {name_of(0)}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::broadcast(s0, c0, inout(x[0]), 2); }, {"no rank 2"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { weir::send(s0, c0, in(x[0]), 0); }, {"CollectiveGroup"}));
  EXPECT_TRUE(fails_with(Errc::overlapping,
                         [&] { weir::all_reduce(s0, c0, in(longer[0].slice(0, 8)), out(longer[0].slice(1, 9))); }));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::communicators({})); }));
  EXPECT_TRUE(fails_with(Errc::invalid_handle, [&] { weir::barrier(s0, weir::Communicator()); }));
  EXPECT_TRUE(fails_with(Errc::not_ready, [&] { static_cast<void>(c0.without_failed()); }));
  for (std::size_t r = 0; r < 2; ++r) weir::barrier(ranks.streams[r], ranks.comms[r]);
  ranks.synchronize();
}

}  // namespace
}  // namespace weir_test
