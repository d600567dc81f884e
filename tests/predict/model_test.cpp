// The parts of the model one by one, with times worked out by hand.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "backends/sim/model/places.hpp"
#include "backends/sim/model/shared_rate.hpp"
#include "backends/sim/model/simulation.hpp"
#include "predict/model_fixture.hpp"

namespace {

using namespace weir::sim::model;
using predict_test::ModelTest;

TEST_F(ModelTest, a_rate_is_shared_by_weight_and_no_job_gets_more_than_it_can_take) {
  SharedRate rate(10, 2);
  rate.add(0, 1, 2, 20);  // alone: 4 a microsecond
  EXPECT_DOUBLE_EQ(rate.next(), 5);
  rate.add(1, 2, 8, 80);  // both: 1 for each unit of weight
  EXPECT_DOUBLE_EQ(rate.next(), 9);
  EXPECT_EQ(rate.pop(9), 1U);
  EXPECT_DOUBLE_EQ(rate.next(), 9 + 16.0 / 10);
  EXPECT_EQ(rate.pop(10.6), 2U);
  EXPECT_TRUE(std::isinf(rate.next()));
}

TEST_F(ModelTest, places_are_limited_by_threads_blocks_and_shared_memory) {
  Places places(profile);
  Task small, large, greedy;
  small.threads = 33;  // two warps
  large.threads = 700;
  greedy.threads = 32;
  greedy.shared_bytes = 400;
  EXPECT_EQ(places.free(small, 0), 8);
  EXPECT_EQ(places.free(large, 0), 2);
  EXPECT_EQ(places.free(greedy, 0), 4);
  places.take(large, 2);
  EXPECT_EQ(places.free(large, 2), 0);
  EXPECT_EQ(places.free(small, 0), 6);
  places.give_back(large, 2);
  EXPECT_EQ(places.free(small, 0), 8);
}

TEST_F(ModelTest, the_host_spends_its_time_call_by_call_and_wakes_after_what_it_waits_for) {
  profile.host.launch_us = 3;
  profile.host.synchronize_us = 1;
  profile.host.wake_us = 2;
  profile.start.kernel_us = 4;
  const std::uint32_t s = stream();
  kernel(s, 10);
  call(Action::work, s, none, 5);
  kernel(s, 10);
  call(Action::sync_stream, s);
  call(Action::sync_stream, s);
  const Result result = run();
  expect(result, 0, 7, 17);
  expect(result, 1, 17, 27);
  EXPECT_DOUBLE_EQ(result.calls[3].end, 29);
  EXPECT_EQ(result.calls[3].awaited, 1U);
  EXPECT_DOUBLE_EQ(result.makespan, 30);  // the second wait finds the stream idle
  EXPECT_DOUBLE_EQ(result.host, 3 + 5 + 3 + 1 + 1);
}

TEST_F(ModelTest, directions_of_the_link_slow_each_other_down_while_both_move) {
  profile.link.both_factor = 0.5;
  copy(stream(), Work::h2d, 4000);
  copy(stream(), Work::d2h, 1000);
  const Result result = run();
  expect(result, 1, 0, 2);  // at half the rate
  expect(result, 0, 0, 5);  // 1,000 bytes in two microseconds, then 3,000 in three
}

TEST_F(ModelTest, an_engine_stays_with_its_stream_and_then_serves_who_is_ready) {
  const std::uint32_t a = stream(), b = stream();
  copy(a, Work::h2d, 1000);
  copy(b, Work::h2d, 1000);
  copy(a, Work::h2d, 1000);
  const Result result = run();
  expect(result, 2, 1, 2);
  expect(result, 1, 2, 3);
  EXPECT_EQ(result.spans[1].begin_by, Cause::link);
  EXPECT_EQ(result.spans[1].holder, 2U);
}

TEST_F(ModelTest, an_engine_turns_to_the_stream_that_it_has_not_served_for_longest) {
  const std::uint32_t a = stream(), b = stream(), c = stream();
  copy(a, Work::h2d, 1000);
  kernel(a, 0.5);
  copy(a, Work::h2d, 1000);
  copy(b, Work::h2d, 2000);
  kernel(c, 2);
  copy(c, Work::h2d, 1000);
  const Result result = run();
  expect(result, 3, 1, 3);
  expect(result, 5, 3, 4);
  expect(result, 2, 4, 5);
}

TEST_F(ModelTest, engines_forget_whom_they_served_while_their_device_rests) {
  for (const double pause : {100.0, 2000.0}) {
    program = {};
    const std::uint32_t a = stream(), b = stream();
    copy(a, Work::h2d, 1000);
    call(Action::work, none, none, pause / 2);
    call(Action::work, none, none, pause / 2);
    kernel(b, 2);
    kernel(a, 2);
    copy(b, Work::h2d, 1000);
    copy(a, Work::h2d, 1000);
    const Result result = run();
    const bool rested = pause > 1000;
    // Both copies are ready at once: the engine stays with the first stream, or knows neither.
    expect(result, rested ? 3 : 4, pause + 2, pause + 3);
    expect(result, rested ? 4 : 3, pause + 3, pause + 4);
  }
}

TEST_F(ModelTest, a_stream_that_is_given_more_copies_while_it_waits_goes_behind_the_others) {
  profile.host.copy_us = 0.1;
  const std::uint32_t a = stream(), b = stream(), c = stream();
  for (const std::uint32_t s : {a, b, c, b}) copy(s, Work::h2d, 1000);
  const Result result = run();
  expect(result, 0, 0.1, 1.1);
  expect(result, 2, 1.1, 2.1);
  expect(result, 1, 2.1, 3.1);
  expect(result, 3, 3.1, 4.1);
}

TEST_F(ModelTest, in_order_of_issue_a_copy_that_cannot_begin_holds_those_behind_it) {
  const std::uint32_t a = stream(), b = stream();
  kernel(a, 5);
  copy(a, Work::h2d, 1000);
  copy(b, Work::h2d, 1000);
  expect(run(), 2, 0, 1);
  profile.copies_in_order = 1;
  const Result result = run();
  expect(result, 1, 5, 6);
  expect(result, 2, 6, 7);
  EXPECT_EQ(result.spans[2].begin_by, Cause::copy_order);
  EXPECT_EQ(result.spans[2].idle_from, 0);
}

TEST_F(ModelTest, kernels_fill_places_one_after_the_other_and_the_more_urgent_first) {
  const std::uint32_t a = stream(), b = stream(), urgent = stream(Stream::Kind::non_blocking, -1);
  kernel(a, 10, 12);  // 8 places: 8 blocks, then 4
  kernel(b, 10, 4);   // beside the last wave
  kernel(urgent, 1, 4);
  Result result = run();
  expect(result, 2, 0, 1);
  EXPECT_DOUBLE_EQ(result.spans[0].end, 20);  // 4 at once, 4 at 1, 4 at 10
  profile.blocks.turnaround_us = 1;
  program.calls.resize(2);
  result = run();
  expect(result, 0, 0, 21);
  expect(result, 1, 11, 21);
  EXPECT_EQ(result.spans[1].begin_by, Cause::device);
}

TEST_F(ModelTest, kernels_that_move_bytes_share_the_memory) {
  Task bytes;
  bytes.work = Work::kernel;
  bytes.bytes = 40000;
  bytes.blocks = 4;
  bytes.threads = 256;
  enqueue(stream(), bytes);
  expect(run(), 0, 0, 10);  // half of the threads take all of the rate
  enqueue(stream(), bytes);
  const Result result = run();
  expect(result, 0, 0, 20);
  expect(result, 1, 0, 20);
}

TEST_F(ModelTest, hops_gaps_and_events) {
  profile.hop.copy_kernel_us = 3;
  profile.hop.kernel_kernel_us = 2;
  profile.hop.event_us = 1;
  profile.hop.kernel_copy_us = 5;
  program.events = 1;
  const std::uint32_t a = stream(), b = stream();
  copy(a, Work::h2d, 1000);
  kernel(a, 10);
  kernel(a, 10);
  call(Action::record, a, 0);
  call(Action::wait_event, b, 0);
  copy(b, Work::d2h, 1000);
  const Result result = run();
  expect(result, 1, 4, 14);
  expect(result, 2, 16, 26);
  expect(result, 3, 32, 33);
  EXPECT_EQ(result.spans[3].behind, 2U);
}

TEST_F(ModelTest, an_event_that_is_passed_on_costs_more_and_of_several_events_of_a_stream_the_last_counts) {
  profile.hop.kernel_kernel_us = 2;
  profile.hop.event_us = 1;
  profile.hop.passed_event_us = 4;
  program.events = 2;
  const std::uint32_t a = stream(), b = stream(), c = stream();
  for (int i = 0; i < 12; ++i) {
    kernel(a, 8);
    call(Action::record, a, 0);
    call(Action::wait_event, b, 0);
  }
  kernel(b, 10);
  call(Action::wait_event, c, 0);
  call(Action::record, c, 1);
  call(Action::wait_event, a, 1);
  call(Action::wait_event, b, 1);
  kernel(b, 1);
  call(Action::wait_stream, stream(), c);
  kernel(3, 1);
  const Result result = run();
  expect(result, 11, 110, 118);
  expect(result, 12, 121, 131);
  expect(result, 13, 133, 134);
  expect(result, 14, 125, 126);
}

TEST_F(ModelTest, the_legacy_stream_separates_blocking_streams_alone) {
  const std::uint32_t blocking = stream(Stream::Kind::blocking), free = stream(), legacy = stream(Stream::Kind::legacy);
  kernel(blocking, 10);
  kernel(legacy, 1);
  kernel(blocking, 10);
  kernel(free, 10);
  const Result result = run();
  expect(result, 1, 10, 11);
  expect(result, 2, 11, 21);
  expect(result, 3, 0, 10);
  EXPECT_EQ(result.spans[1].ready_by, Cause::barrier);
}

TEST_F(ModelTest, R25_who_waits_for_the_legacy_stream_waits_for_all_blocking_ones) {
  const std::uint32_t blocking = stream(Stream::Kind::blocking), free = stream(), legacy = stream(Stream::Kind::legacy);
  kernel(blocking, 10);
  kernel(free, 30);
  call(Action::query_stream, legacy);
  call(Action::sync_stream, legacy);
  const Result result = run();
  EXPECT_DOUBLE_EQ(result.calls[3].end, 10);
  EXPECT_EQ(result.calls[3].awaited, 0U);
}

TEST_F(ModelTest, a_full_stream_lets_the_host_wait) {
  profile.pending_commands = 2;
  const std::uint32_t s = stream();
  for (int i = 0; i < 4; ++i) kernel(s, 10);
  const Result result = run();
  EXPECT_DOUBLE_EQ(result.spans[2].issued, 10);
  EXPECT_DOUBLE_EQ(result.spans[3].issued, 20);
  EXPECT_DOUBLE_EQ(result.makespan, 40);
}

TEST_F(ModelTest, streams_that_share_a_work_queue_hold_each_other) {
  const std::uint32_t a = stream(), b = stream();
  kernel(a, 10);
  kernel(a, 10);
  kernel(b, 1);
  expect(run(), 2, 0, 1);
  profile.work_queues = 1;
  const Result result = run();
  expect(result, 2, 10, 11);
  EXPECT_EQ(result.spans[2].ready_by, Cause::queue);
}

TEST_F(ModelTest, no_more_kernels_are_resident_than_the_device_holds) {
  profile.resident_kernels = 1;
  kernel(stream(), 10);
  kernel(stream(), 10);
  expect(run(), 1, 10, 20);
}

TEST_F(ModelTest, the_host_waits_for_copies_of_pageable_memory_but_for_small_ones_to_the_device) {
  const std::uint32_t s = stream();
  copy(s, Work::h2d, 1000, true);
  copy(s, Work::h2d, 100, true);
  call(Action::work, s, none, 1);
  copy(s, Work::d2h, 100, true);
  call(Action::work, s, none, 1);
  const Result result = run();
  expect(result, 0, 0, 2);
  EXPECT_DOUBLE_EQ(result.calls[1].begin, 2);
  EXPECT_DOUBLE_EQ(result.calls[2].begin, 2);
  EXPECT_DOUBLE_EQ(result.calls[4].begin, 3.2);
}

TEST_F(ModelTest, host_functions_run_one_at_a_time) {
  Task function;
  function.work = Work::host_function;
  function.fixed_us = 5;
  enqueue(stream(), function);
  enqueue(stream(), function);
  profile.host.function_us = 1;
  const Result result = run();
  expect(result, 0, 0, 6);
  expect(result, 1, 6, 12);
}

TEST_F(ModelTest, the_thread_for_host_functions_has_to_be_woken) {
  profile.hop.to_host_function_us = 10;
  profile.hop.to_awake_function_us = 3;
  profile.hop.function_awake_us = 20;
  profile.hop.function_wait_share = 2;
  Task function;
  function.work = Work::host_function;
  const std::uint32_t s = stream();
  for (const double us : {6.0, 4.0, 1.0, 30.0}) {
    kernel(s, us);
    enqueue(s, function);
  }
  enqueue(s, function);
  const Result result = run();
  expect(result, 1, 16, 16);  // it slept
  expect(result, 3, 23, 23);
  expect(result, 5, 26, 26);  // it had hardly begun to wait
  expect(result, 7, 66, 66);
  expect(result, 8, 66, 66);
}

TEST_F(ModelTest, threads_wait_for_hand_offs_and_work_at_the_same_time) {
  program.threads = 2;
  program.hand_offs = 1;
  const std::uint32_t s = stream();
  call(Action::work, none, none, 5, 1);
  call(Action::work, none, none, 3, 0);
  call(Action::give, none, 0, 0, 1);
  call(Action::take, none, 0, 0, 0);
  kernel(s, 10);
  const Result result = run();
  EXPECT_FALSE(result.stuck);
  expect(result, 0, 5, 15);
  program.calls.erase(program.calls.begin() + 2);
  EXPECT_TRUE(run().stuck);
}

TEST_F(ModelTest, questions_that_cost_nothing_or_follow_each_other_leave_nothing_behind) {
  const std::uint32_t s = stream();
  profile.host.query_us = 1;
  Simulation simulation(program, profile);
  kernel(s, 2);
  EXPECT_TRUE(simulation.call());
  EXPECT_FALSE(simulation.drop_question());
  for (int i = 0; i < 5; ++i) {
    call(Action::query_stream, s);
    EXPECT_TRUE(simulation.call());
    EXPECT_EQ(simulation.answer(), i > 2);
    if (simulation.drop_question()) program.calls.pop_back();
  }
  EXPECT_EQ(program.calls.size(), 2U);
  ASSERT_EQ(simulation.calls().end(), 2U);
  EXPECT_EQ(simulation.calls().back().begin, 0);
  EXPECT_EQ(simulation.calls().back().end, 3);
  EXPECT_EQ(simulation.clock(0), 3);
}

TEST_F(ModelTest, devices_have_engines_of_their_own) {
  program.devices = 2;
  const std::uint32_t a = stream(), b = stream(Stream::Kind::non_blocking, 0, 1);
  copy(a, Work::h2d, 1000);
  copy(b, Work::h2d, 1000);
  copy(b, Work::copy_peer, 2000);
  const Result result = run();
  expect(result, 0, 0, 1);
  expect(result, 1, 0, 1);
  expect(result, 2, 1, 2);
}

TEST_F(ModelTest, the_same_program_gives_the_same_times_and_more_of_a_device_never_more_time_here) {
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t s = stream();
    copy(s, Work::h2d, 500.0 * (i % 5 + 1));
    kernel(s, 3.0 * (i % 7 + 1), static_cast<std::uint32_t>(i % 4 + 1) * 3, 128);
    copy(s, Work::d2h, 700.0 * (i % 3 + 1));
  }
  const Result first = run(), second = run();
  for (std::size_t i = 0; i < first.spans.size(); ++i) {
    EXPECT_EQ(first.spans[i].begin, second.spans[i].begin);
    EXPECT_EQ(first.spans[i].end, second.spans[i].end);
  }
  profile.link.h2d_gb_s = 1000;
  profile.link.d2h_gb_s = 1000;
  profile.sms = 100;
  EXPECT_LT(run().makespan, first.makespan);
}

// R18: a wait is work of the legacy stream: what a blocking stream is given next comes behind it.
TEST_F(ModelTest, a_wait_in_the_legacy_stream_holds_blocking_streams) {
  const std::uint32_t a = stream(), blocking = stream(Stream::Kind::blocking), other = stream();
  const std::uint32_t legacy = stream(Stream::Kind::legacy);
  program.events = 1;
  kernel(a, 10);
  call(Action::record, a, 0);
  call(Action::wait_event, legacy, 0);
  kernel(blocking, 1);
  kernel(other, 1);
  const Result result = run();
  std::vector<double> begins;
  for (const Span& span : result.spans) {
    if (span.task != none) begins.push_back(span.begin);
  }
  ASSERT_EQ(begins.size(), 3u);
  EXPECT_NEAR(begins[1], 10, 1e-9);
  EXPECT_NEAR(begins[2], 0, 1e-9);
}

// Asked until the answer is yes: the host hears it at the first question after the end, and asks for as long.
TEST_F(ModelTest, a_poll_ends_with_the_first_question_that_is_answered_with_yes) {
  profile.host.query_us = 3;
  const std::uint32_t s = stream();
  kernel(s, 10);
  call(Action::poll_stream, s);
  call(Action::poll_stream, s);
  kernel(s, 1);
  const Result result = run();
  EXPECT_NEAR(result.calls[1].end, 12, 1e-9);
  EXPECT_NEAR(result.calls[2].end, 12, 1e-9);
  EXPECT_NEAR(result.spans[1].issued, 12, 1e-9);
  EXPECT_NEAR(result.host, 12, 1e-9);
}

TEST_F(ModelTest, a_poll_that_costs_nothing_ends_with_what_it_asks_for) {
  profile.host.query_us = 0;
  const std::uint32_t s = stream();
  program.events = 1;
  kernel(s, 10);
  call(Action::record, s, 0);
  call(Action::poll_event, none, 0);
  const Result result = run();
  EXPECT_NEAR(result.calls[2].end, 10, 1e-9);
  EXPECT_NEAR(result.host, 0, 1e-9);
}

}  // namespace
