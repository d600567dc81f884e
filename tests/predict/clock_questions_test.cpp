// done() on simulated devices: what recordings keep of it, and that late real work is not seen.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/observer.hpp>
#include <weir/recorder.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace {

using std::chrono::microseconds;
using weir::recorded::Op;

struct Nothing {
  void operator()(std::size_t) const {}
};

double us_since(std::chrono::steady_clock::time_point begin, weir::Device device) {
  return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
}

void launch(weir::StreamRef stream, const char* name) {
  weir::launch(stream, weir::Extent{.size = 1, .name = name}, Nothing{});
}

std::size_t questions(const weir::Recording& recording, bool answer) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < recording.size(); ++i)
    count += recording.command(i).op == Op::query && recording.command(i).flag == answer;
  return count;
}

std::size_t without_questions(const weir::Recording& recording) {
  return recording.size() - questions(recording, false) - questions(recording, true);
}

/// What a run took, and what is predicted from its recording.
struct Measured {
  double us = 0;
  double predicted_us = 0;
  weir::Recording recording;
};

template <class Program>
Measured measured(const char* profile, Program&& program) {
  const weir::Device device = weir::device(std::string("sim:") + profile);
  device.synchronize();
  weir::sim::host_work(std::chrono::milliseconds(1));  // what was before is long ago
  Measured made;
  const auto begin = weir::host_now(device);
  weir::Recorder recorder;
  program(device);
  made.us = us_since(begin, device);
  made.recording = recorder.finish();
  made.predicted_us = weir::sim::predict(made.recording, {profile, {}, false, false, true}).makespan_us;
  return made;
}

}  // namespace

TEST(SimulatedQuestions, C11_that_are_answered_with_no_are_recorded_and_check_launches_in_predictions_too) {
  weir::sim::set_cost("6 ms", {.blocks = 4, .threads = 256, .block_ns = 6e6});
  for (const bool of_event : {false, true}) {
    const Measured run = measured("cc30", [&](weir::Device device) {
      const weir::Stream s(device), t(device);
      weir::Event event(device);
      launch(s, "6 ms");
      s.record(event);
      EXPECT_FALSE(of_event ? event.done() : s.done());
      launch(t, "6 ms");
      device.synchronize();
    });
    EXPECT_EQ(questions(run.recording, false), 1u);
    EXPECT_NEAR(run.us, 12'000, 0.01);
    EXPECT_NEAR(run.predicted_us, 12'000, 0.01) << of_event;
  }
}

TEST(SimulatedQuestions, of_loops_that_end_take_one_no_and_one_yes_in_recordings_and_all_their_time) {
  weir::sim::set_cost("1 ms", {.ns = 1e6});
  const Measured run = measured("h200", [](weir::Device device) {
    const weir::Stream s(device);
    launch(s, "1 ms");
    while (!s.done()) {
    }
  });
  EXPECT_EQ(questions(run.recording, false), 1u);
  EXPECT_EQ(questions(run.recording, true), 1u);
  EXPECT_NEAR(run.predicted_us, run.us, 0.01);
}

TEST(SimulatedQuestions, that_nobody_waits_to_hear_a_yes_to_cost_each_what_the_profile_says) {
  weir::sim::set_cost("1 ms", {.ns = 1e6});
  const Measured run = measured("h200", [](weir::Device device) {
    const weir::Stream s(device), t(device);
    launch(s, "1 ms");
    for (int i = 0; i < 40; ++i) EXPECT_FALSE(s.done());
    launch(t, "1 ms");
    device.synchronize();
  });
  EXPECT_EQ(questions(run.recording, false), 40u);
  EXPECT_GT(run.us, 1020);
  EXPECT_NEAR(run.predicted_us, run.us, 0.01);
}

TEST(SimulatedQuestions, observers_are_told_a_no_of_virtual_clocks_alone) {
  struct Watcher final : weir::Observer {
    void asked(const weir::HostWait& question) override { asks.push_back(question); }
    std::vector<weir::HostWait> asks;
  } watcher;
  weir::sim::set_cost("1 ms", {.ns = 1e6});
  const weir::Stream on_cpu(weir::device("cpu")), s(weir::device("sim:h200"));
  weir_test::Gate gate;
  gate.hold(on_cpu);
  weir::attach(watcher, weir::Watch::host);
  launch(s, "1 ms");
  EXPECT_FALSE(on_cpu.done());
  const std::uint32_t line = __LINE__ + 1;
  EXPECT_FALSE(s.done());
  weir::detach(watcher);
  gate.open();
  weir::synchronize();
  ASSERT_EQ(watcher.asks.size(), 1u);
  EXPECT_EQ(watcher.asks[0].stream, s.id());
  EXPECT_EQ(watcher.asks[0].where.line(), line);
  EXPECT_EQ(watcher.asks[0].source, weir::HostWait::Source::query);
}

namespace {

/// The work of 350 us ends for real when the loop has turned so many times.
Measured polled(const char* profile, int turns, bool two) {
  weir_test::Gate gate;  // not measured: it may allocate
  return measured(profile, [&](weir::Device device) {
    const weir::Stream s(device), t(device);
    const weir::SourceLocation here = weir::SourceLocation::current();
    weir::sim::set_cost("clock_questions_test.cpp:" + std::to_string(here.line()), {.ns = 3.5e5});
    gate.hold_by_host_call(s, here);
    launch(t, "600 us");
    const weir::Event held = s.record(), other = t.record();
    if (turns == 0) {
      gate.open();
      EXPECT_TRUE(weir_test::eventually([&] { return gate.begun() == 1; }));
    }
    for (int turn = 1; !(two ? int{held.done()} & int{other.done()} : int{held.done()}); ++turn) {
      weir::sim::host_work(microseconds(100));
      if (turn == turns) gate.open();
    }
    launch(t, "600 us");
    device.synchronize();
  });
}

}  // namespace

// Twelve turns are 1.2 ms: long after the virtual ends, at 350 and 600 us.
TEST(SimulatedQuestions, in_loops_that_work_end_at_the_same_time_however_late_the_real_work_is) {
  weir::sim::set_cost("600 us", {.ns = 6e5});
  for (const char* profile : {"h200", "cc30"}) {
    for (const bool two : {false, true}) {
      SCOPED_TRACE(std::string(profile) + (two ? ", two events" : ""));
      const Measured soon = polled(profile, 0, two);
      EXPECT_GT(soon.us, two ? 1200 : 1000);
      for (const int turns : {5, 12}) {
        const Measured late = polled(profile, turns, two);
        EXPECT_NEAR(late.us, soon.us, 0.0021) << turns;
        EXPECT_NEAR(late.predicted_us, soon.predicted_us, 1e-6) << turns;
        EXPECT_EQ(without_questions(late.recording), without_questions(soon.recording)) << turns;
      }
    }
  }
}

TEST(SimulatedQuestions, work_behind_a_late_answer_counts_where_nobody_asks_again) {
  weir::sim::set_cost("600 us", {.ns = 6e5});
  const auto run = [](bool late) {
    weir_test::Gate gate;  // not measured: it may allocate
    return measured("h200", [&](weir::Device device) {
      const weir::Stream s(device);
      const weir::SourceLocation here = weir::SourceLocation::current();
      weir::sim::set_cost("clock_questions_test.cpp:" + std::to_string(here.line()), {.ns = 1000});
      gate.hold_by_host_call(s, here);
      weir::sim::host_work(microseconds(500));
      if (!late) {
        gate.open();
        EXPECT_TRUE(weir_test::eventually([&] { return s.done(); }));
      }
      EXPECT_EQ(s.done(), !late);
      weir::sim::host_work(microseconds(300));
      weir::sim::host_work(microseconds(400));
      gate.open();
      launch(s, "600 us");
      s.synchronize();
    });
  };
  const Measured late = run(true), soon = run(false);
  EXPECT_GT(late.us, 1800);
  EXPECT_NEAR(late.us, soon.us, 0.0021);
  EXPECT_NEAR(late.predicted_us, soon.predicted_us, 1e-6);
}

TEST(SimulatedQuestions, who_reads_the_time_behind_a_late_answer_never_sees_it_go_back) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  s.synchronize();
  weir_test::Gate gate;
  gate.hold_by_host_call(s);
  weir::sim::host_work(std::chrono::milliseconds(1));
  auto before = weir::host_now(device);
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(s.done()) << "the gate is shut";
    weir::sim::host_work(microseconds(100));
    const auto now = weir::host_now(device);
    EXPECT_GE(now - before, microseconds(100));
    before = now;
  }
  gate.open();
  s.synchronize();
}
