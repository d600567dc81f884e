// host_work() in host functions of simulated devices: they last as long as they say, whenever they really run.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include <weir/observer.hpp>
#include <weir/recorder.hpp>
#include <weir/recording.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

double us_since(std::chrono::steady_clock::time_point begin, weir::Device device) {
  return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
}

void launch_1ms(weir::StreamRef stream) {
  weir::sim::set_cost("1 ms", {.ns = 1e6});
  weir::launch(stream, weir::Extent{.size = 1, .name = "1 ms"}, [](int) {});
}

void function_of(weir::StreamRef stream, microseconds time) {
  weir::host_call(stream, [time] { weir::sim::host_work(time); });
}

/// What was before is long ago.
std::chrono::steady_clock::time_point start(weir::Device device) {
  weir::synchronize();
  weir::sim::host_work(milliseconds(1));
  return weir::host_now(device);
}

/// Is computed beside.
class Load {
 public:
  Load() {
    for (std::thread& thread : threads_) {
      thread = std::thread([this] {
        while (!over_.load(std::memory_order_relaxed)) {
        }
      });
    }
  }
  ~Load() {
    over_ = true;
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::thread threads_[2];
};

}  // namespace

// Nothing else takes time there.
TEST(SimulatedBodies, last_exactly_as_long_as_they_say) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device), t(device);
  weir::TimedEvent first(device), second(device), third(device);
  const auto begin = start(device);
  s.record(first);
  weir::host_call(s, [] {
    weir::sim::host_work(milliseconds(2));
    weir::sim::host_work(milliseconds(3));
  });
  s.record(second);
  launch_1ms(s);
  launch_1ms(t);
  function_of(t, milliseconds(4));  // behind the first one, on the driver's one thread (R87)
  weir::host_call(t, [] {});
  t.record(third);
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), 6000, 0.01);
  device.synchronize();
  EXPECT_NEAR(us_since(begin, device), 9000, 0.01);
  EXPECT_NEAR(weir::elapsed(first, second).count(), 5, 1e-5);
  EXPECT_NEAR(weir::elapsed(first, third).count(), 9, 1e-5);
}

TEST(SimulatedBodies, of_functions_that_were_said_to_last_count_as_far_as_they_are_longer) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device);
  const weir::SourceLocation here = weir::SourceLocation::current();
  const std::string line = "clock_bodies_test.cpp:" + std::to_string(here.line());
  weir::sim::set_cost(line, {.ns = 3e6});
  for (const int ms : {1, 3, 7}) {
    const auto begin = start(device);
    weir::host_call({s, here}, [ms] { weir::sim::host_work(milliseconds(ms)); });
    s.synchronize();
    EXPECT_NEAR(us_since(begin, device), std::max(ms, 3) * 1000, 0.01) << ms;
  }
}

namespace {

/// Functions that run for real when the gate opens: at once, or when the clock of the host has long passed them.
double with_gate(const char* profile, bool late) {
  const weir::Device device = weir::device(profile);
  const weir::Stream s(device), t(device);
  weir_test::Gate gate;
  const auto begin = start(device);
  if (!late) gate.open();
  gate.hold_by_host_call(s);
  for (int i = 0; i < 3; ++i) {
    function_of(s, milliseconds(2));
    launch_1ms(s);
  }
  for (int i = 0; i < 100; ++i) launch_1ms(t);
  weir::sim::host_work(milliseconds(1));
  weir::Event event = t.record();
  s.wait(event);
  launch_1ms(s);
  for (int i = 0; i < 20; ++i) launch_1ms(t);
  weir::sim::host_work(milliseconds(1));
  gate.open();
  s.synchronize();
  const double there = us_since(begin, device);
  device.synchronize();
  return there + us_since(begin, device);
}

}  // namespace

TEST(SimulatedBodies, take_the_same_time_however_late_they_really_run) {
  for (const char* profile : {"sim:h200", "sim:cc30", "sim:fermi-1-engine"}) {
    const double soon = with_gate(profile, false);
    EXPECT_GT(soon, 2 * 100'000);
    const Load load;
    for (int run = 0; run < 20; ++run) EXPECT_NEAR(with_gate(profile, run % 2 == 0), soon, 0.003) << profile;
  }
}

// The body of the one stream waits until the host has seen the end of the other one's work.
TEST(SimulatedBodies, that_wait_for_the_host_hold_nobody_who_asks_of_other_work) {
  for (const char* profile : {"sim:h200", "sim:cc30"}) {
    SCOPED_TRACE(profile);
    const weir::Device device = weir::device(profile);
    const weir::Stream s(device), t(device);
    weir_test::Gate gate;
    const auto begin = start(device);
    gate.hold_by_host_call(s);
    function_of(s, milliseconds(7));
    launch_1ms(s);
    launch_1ms(t);
    while (!t.done()) {
    }
    const double asked = us_since(begin, device);
    EXPECT_NEAR(asked, 1000, 60);
    EXPECT_FALSE(s.done());
    launch_1ms(t);
    t.synchronize();
    EXPECT_NEAR(us_since(begin, device), 2000, 120);
    EXPECT_FALSE(s.done());
    gate.open();
    while (!s.done()) {
    }
    EXPECT_NEAR(us_since(begin, device), 8000, 120);
  }
}

namespace {

double polled(bool late, bool works) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device), t(device);
  weir_test::Gate gate;
  const auto begin = start(device);
  if (!late) gate.open();
  gate.hold_by_host_call(s);
  function_of(s, milliseconds(2));
  if (!late) {
    EXPECT_TRUE(weir_test::eventually([&] { return gate.begun() == 1; }));
  }
  for (int turn = 0; !s.done(); ++turn) {
    if (works) weir::sim::host_work(microseconds(50));
    if (turn == 100) gate.open();
  }
  launch_1ms(s);
  device.synchronize();
  return us_since(begin, device);
}

}  // namespace

TEST(SimulatedBodies, end_loops_that_ask_at_the_same_time_in_each_run) {
  for (const bool works : {false, true}) {
    const double soon = polled(false, works);
    EXPECT_NEAR(soon, 3000, 150);
    const Load load;
    for (int run = 0; run < 20; ++run) EXPECT_NEAR(polled(run % 2 == 0, works), soon, 0.003) << works;
  }
}

TEST(SimulatedBodies, of_graphs_last_as_long_as_each_launch_of_them_says) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device);
  std::atomic<int> runs{0};
  const weir::Graph graph = weir::capture(s, [&] {
    launch_1ms(s);
    weir::host_call(s, [&runs] { weir::sim::host_work(milliseconds(++runs)); });
    weir::host_call(s, [] { weir::sim::host_work(milliseconds(10)); });
    launch_1ms(s);
  });
  weir_test::Gate gate;
  const auto begin = start(device);
  gate.hold_by_host_call(s);
  for (int i = 0; i < 4; ++i) graph.launch(s);
  weir::sim::host_work(milliseconds(1));
  launch_1ms(s);
  gate.open();
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), (4 * 12 + 1 + 2 + 3 + 4 + 1) * 1000, 0.01);
}

TEST(SimulatedBodies, of_graphs_that_are_changed_are_of_the_launches_before) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device);
  weir::Graph graph = weir::capture(s, [&] {
    weir::host_call(s, [] { weir::sim::host_work(milliseconds(2)); });
    launch_1ms(s);
  });
  weir_test::Gate gate;
  const auto begin = start(device);
  gate.hold_by_host_call(s);
  graph.launch(s);
  gate.open();
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), 3000, 0.01);
  graph.launch(s);
  {
    weir::Graph gone = weir::capture(s, [&] { launch_1ms(s); });
    gone.launch(s);
  }
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), 7000, 0.01);
}

TEST(SimulatedBodies, of_two_devices_have_one_thread_and_hold_each_others_streams) {
  const weir::Device device = weir::device("sim:kepler-2-engines"), other = weir::device("sim:kepler-2-engines:1");
  const weir::Stream s(device), t(other);
  weir_test::Gate gate;
  const auto begin = start(device);
  gate.hold_by_host_call(s);
  function_of(s, milliseconds(5));
  weir::Event event = s.record();
  function_of(t, milliseconds(2));
  t.wait(event);
  launch_1ms(t);
  weir::sim::host_work(milliseconds(1));
  gate.open();
  device.synchronize();
  other.synchronize();
  EXPECT_NEAR(us_since(begin, device), 8000, 0.01);
}

// Devices of two profiles have a model each: what one knows of the other is known when the stream is told to wait.
TEST(SimulatedBodies, beside_devices_of_other_profiles_take_their_time) {
  const weir::Device device = weir::device("sim:kepler-2-engines"), other = weir::device("sim:cc30");
  const weir::Stream s(device), t(other);
  const auto begin = start(device);
  function_of(s, milliseconds(5));
  launch_1ms(t);
  s.synchronize();
  t.synchronize();
  EXPECT_NEAR(us_since(begin, device), 5000, 0.01);
  function_of(t, milliseconds(5));
  weir::synchronize();
  EXPECT_NEAR(us_since(begin, device), 10'000, 0.01);
}

TEST(SimulatedBodies, are_seen_by_observers_timelines_and_predictions) {
  struct Watcher final : weir::Observer {
    void ran(weir::CommandId, weir::StreamId, weir::Span span) override {
      us.push_back(std::chrono::duration<double, std::micro>(span.end - span.begin).count());
    }
    std::vector<double> us;
  } watcher;
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  weir_test::Gate gate;
  const auto begin = start(device);
  const weir::Graph graph = weir::capture(s, [&] { function_of(s, milliseconds(3)); });
  weir::attach(watcher, weir::Watch::times | weir::Watch::commands);
  gate.hold_by_host_call(s);
  function_of(s, milliseconds(5));
  weir::sim::host_work(milliseconds(1));
  launch_1ms(s);
  graph.launch(s);
  gate.open();
  s.synchronize();
  weir::detach(watcher);
  const double us = us_since(begin, device);
  EXPECT_NEAR(us, 9000, 200);
  ASSERT_EQ(watcher.us.size(), 4u);
  EXPECT_NEAR(watcher.us[1], 5000, 3);
  EXPECT_NEAR(watcher.us[2], 1000, 3);
  EXPECT_NEAR(watcher.us[3], 3000, 80);  // its thread has to be woken
  const weir::sim::Prediction timeline = weir::sim::timeline(device);
  ASSERT_GE(timeline.commands.size(), 4u);
  const weir::sim::PredictedCommand& body = timeline.commands[timeline.commands.size() - 3];
  EXPECT_EQ(body.engine, weir::sim::Engine::host_function);
  EXPECT_NEAR(body.end_us - body.begin_us, 5000, 3);
}

TEST(SimulatedBodies, are_in_recordings_as_long_as_they_were) {
  for (const bool times : {false, true}) {
    const weir::Device device = weir::device("sim:h200");
    const weir::Stream s(device);
    weir_test::Gate gate;
    const auto begin = start(device);
    weir::Recorder recorder({.times = times});
    gate.hold_by_host_call(s);
    function_of(s, milliseconds(5));
    weir::sim::host_work(milliseconds(1));
    function_of(s, milliseconds(2));
    launch_1ms(s);
    gate.open();
    s.synchronize();
    const double us = us_since(begin, device);
    EXPECT_NEAR(us, 8000, 200);
    EXPECT_NEAR(weir::sim::predict(recorder.finish(), {.gains = false, .own_copies = true}).makespan_us, us, 0.01);
  }
}

namespace {

/// Launches of a graph whose functions work for another time in each, one of them in a child; another graph is gone by the end.
void run_graphs(weir::Device device, weir::StreamRef s) {
  std::atomic<int> runs{0};
  const weir::Graph child =
      weir::capture(s, [&] { weir::host_call(s, [&runs] { weir::sim::host_work(milliseconds(runs.load())); }); });
  weir::GraphBuilder builder(device);
  const weir::Node first = builder.host_call([&runs] { weir::sim::host_work(milliseconds(++runs)); });
  const weir::Node none = builder.host_call([] {});
  builder.depends(none, first);
  const weir::Node inner = builder.graph(child);
  builder.depends(inner, none);
  const weir::Graph graph = builder.build();
  weir_test::Gate gate;
  gate.hold_by_host_call(s);
  for (int i = 0; i < 3; ++i) {
    graph.launch(s);
    launch_1ms(s);
  }
  {
    const weir::Graph gone = weir::capture(s, [&] { function_of(s, milliseconds(4)); });
    gone.launch(s);
  }
  gate.open();
  s.synchronize();
}

}  // namespace

TEST(SimulatedBodies, of_graphs_are_in_recordings_of_each_launch) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("weir bodies " + std::to_string(getpid()) + ".json");
  for (const bool times : {false, true}) {
    const weir::Device device = weir::device("sim:h200");
    const weir::Stream s(device);
    const auto begin = start(device);
    weir::Recorder recorder({.times = times});
    run_graphs(device, s);
    const double us = us_since(begin, device);
    EXPECT_NEAR(us, (2 * (1 + 2 + 3) + 3 + 4) * 1000, 1500);
    const weir::Recording recording = recorder.finish();
    EXPECT_NEAR(weir::sim::predict(recording, {.gains = false, .own_copies = true}).makespan_us, us, 0.01);
    weir::save(recording, file);
    const weir::Recording read = weir::load_recording(file);
    EXPECT_NEAR(weir::sim::predict(read, {.gains = false, .own_copies = true}).makespan_us, us, 0.01);
  }
  std::filesystem::remove(file);
}

// A stream that has failed runs none, and the rest goes on.
TEST(SimulatedBodies, that_are_never_called_hold_nothing) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  for (const bool in_graph : {false, true}) {
    const weir::Stream s(device), t(device);
    const weir::Graph graph = weir::capture(s, [&] { function_of(s, milliseconds(3)); });
    const auto begin = start(device);
    weir::host_call(s, [] { throw 1; });
    if (in_graph) {
      graph.launch(s);
    } else {
      function_of(s, milliseconds(3));
    }
    EXPECT_THROW(s.synchronize(), weir::Error);
    launch_1ms(t);
    t.synchronize();
    EXPECT_LE(us_since(begin, device), 1000.01);
    function_of(t, milliseconds(3));
    t.synchronize();
    EXPECT_LE(us_since(begin, device), 4000.01);
  }
}

// Nobody has been told of the failure yet.
TEST(SimulatedBodies, that_are_skipped_hold_no_timeline) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device), t(device);
  start(device);
  weir::host_call(s, [] { throw 1; });
  auto kept = std::make_shared<int>(0);
  const std::weak_ptr<int> there = kept;
  weir::host_call(s, [kept = std::move(kept)] { weir::sim::host_work(milliseconds(3)); });
  EXPECT_TRUE(weir_test::eventually([&] { return there.expired(); }));
  launch_1ms(t);
  t.synchronize();
  const weir::sim::Prediction timeline = weir::sim::timeline(device);
  ASSERT_FALSE(timeline.commands.empty());
  EXPECT_EQ(timeline.commands.back().engine, weir::sim::Engine::kernel);
  EXPECT_NEAR(timeline.commands.back().end_us - timeline.commands.back().begin_us, 1000, 0.01);
  EXPECT_THROW(s.synchronize(), weir::Error);
}

// So many calls are not kept: memory must not grow for ever.
TEST(SimulatedBodies, that_hold_very_many_calls_have_said_all) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device), t(device);
  weir_test::Gate gate;
  const auto begin = start(device);
  gate.hold_by_host_call(s);
  function_of(s, milliseconds(3));
  weir::sim::host_work(milliseconds(1));
  for (int i = 0; i < 30'000; ++i) t.record(weir::Event(device));
  gate.open();
  weir::synchronize();
  EXPECT_LE(us_since(begin, device), 4000.01);
}

// It works, and then gives: who takes is there behind the work.
TEST(SimulatedBodies, that_give_to_a_host_thread_have_worked_before) {
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device);
  const auto begin = start(device);
  weir::HandOff hand_off;
  std::atomic<bool> given{false};
  weir::host_call(s, [&] {
    weir::sim::host_work(milliseconds(4));
    hand_off.give();
    given = true;
  });
  EXPECT_TRUE(weir_test::eventually([&] { return given.load(); }));
  hand_off.take();
  EXPECT_NEAR(us_since(begin, device), 4000, 0.01);
  s.synchronize();
}

// The same program, in another process: its time is real.
TEST(SimulatedBodies, measured_in_a_process_of_its_own) {
  if (std::getenv("WEIR_SIM_HOST") == nullptr) GTEST_SKIP() << "for the test that runs it";
  const weir::Device device = weir::device("sim:kepler-2-engines");
  const weir::Stream s(device);
  s.synchronize();
  const auto begin = weir::host_now(device);
  weir::host_call(s, [] {
    weir::sim::host_work(std::chrono::hours(1));
    const auto until = std::chrono::steady_clock::now() + milliseconds(30);
    while (std::chrono::steady_clock::now() < until) {
    }
  });
  weir::Event event = s.record();
  s.synchronize();
  EXPECT_GE(us_since(begin, device), 30'000);
  EXPECT_LE(us_since(begin, device), 30'000'000);
}

TEST(SimulatedBodies, last_their_real_time_where_it_is_measured) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  EXPECT_EQ(std::system(("WEIR_SIM_HOST=measured '" + self +
                         "' --gtest_filter=SimulatedBodies.measured_in_a_process_of_its_own > /dev/null")
                            .c_str()),
            0);
}
