// Host functions, foreign work and work queues on simulated devices.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recorder.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

namespace {

double us_since(std::chrono::steady_clock::time_point begin, weir::Device device) {
  return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
}

std::string line_of(weir::SourceLocation where) { return "clock_functions_test.cpp:" + std::to_string(where.line()); }

}  // namespace

TEST(SimulatedFunctions, last_as_was_said_of_their_lines_one_at_a_time) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device), t(device);
  s.synchronize();
  weir::Recorder recorder;
  const weir::SourceLocation here = weir::SourceLocation::current();
  weir::sim::set_cost(line_of(here), {.ns = 5e6});
  const auto begin = weir::host_now(device);
  for (const weir::StreamRef stream : {weir::StreamRef(s), weir::StreamRef(t), weir::StreamRef(s)})
    weir::host_call({stream, here}, [] {});
  weir::host_call(t, [] {});
  device.synchronize();
  EXPECT_NEAR(us_since(begin, device), 15'000, 100);
  const weir::sim::Prediction predicted = weir::sim::predict(recorder.finish(), {.gains = false});
  EXPECT_NEAR(predicted.makespan_us, us_since(begin, device), 1);
}

TEST(SimulatedQueues, R182_as_many_streams_as_Weir_asks_queues_for_do_not_hold_each_other) {
  const weir::Device device = weir::device("sim:h200");
  weir::sim::set_cost("queued", {.ns = 1e6});
  std::vector<weir::Stream> streams;
  for (int i = 0; i < 20; ++i) streams.emplace_back(device);
  device.synchronize();
  weir::Recorder recorder;
  const auto begin = weir::host_now(device);
  for (const weir::Stream& s : streams) {
    for (int i = 0; i < 2; ++i) weir::launch(s, weir::Extent{.size = 1, .name = "queued"}, [](int) {});
  }
  device.synchronize();
  EXPECT_NEAR(us_since(begin, device), 2000, 200);
  const weir::Recording recording = recorder.finish();
  EXPECT_NEAR(weir::sim::predict(recording, {.own_copies = true}).makespan_us, us_since(begin, device), 1);
  EXPECT_GT(weir::sim::predict(recording).makespan_us, 2900);
}

TEST(SimulatedStreams, take_no_place_in_an_engines_service_from_one_that_is_gone) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream waits(device), first(device);
  const weir::TimedEvent ready(device);
  auto host = weir::zeros<float>(weir::pinned, 300);
  auto data = weir::zeros<float>(waits, 300);
  weir::sim::set_cost("holds", {.ns = 200e3});
  device.synchronize();
  {
    const weir::Stream gone(device);
    weir::copy(gone, data.slice(0, 100), host.slice(0, 100));
    gone.synchronize();
  }
  const weir::Stream later(device);  // in its place
  weir::Recorder recorder;
  weir::launch(waits, weir::Extent{.size = 1, .name = "holds"}, [](int) {});
  waits.record(ready);
  for (const weir::StreamRef s : {weir::StreamRef(later), weir::StreamRef(first)}) s.wait(ready);
  weir::copy(later, data.slice(100, 200), host.slice(100, 200));
  weir::copy(first, data.slice(200, 300), host.slice(200, 300));
  device.synchronize();
  const std::vector<weir::sim::PredictedCommand> run = weir::sim::timeline(device).commands;
  const auto predicted = weir::sim::predict(recorder.finish(), {.gains = false}).commands;
  const double shift = run.back().issued_us - predicted.back().issued_us;
  EXPECT_NEAR(run.back().begin_us - shift, predicted.back().begin_us, 0.005);
  EXPECT_NEAR(run[run.size() - 2].begin_us - shift, predicted[predicted.size() - 2].begin_us, 0.005);
}

TEST(SimulatedFunctions, foreign_work_and_functions_of_graphs_too) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  const weir::SourceLocation here = weir::SourceLocation::current();
  weir::sim::set_cost(line_of(here), {.ns = 3e6});
  const weir::Graph graph = weir::capture(s, [&] { weir::host_call({s, here}, [] {}); });
  s.synchronize();
  const auto begin = weir::host_now(device);
  weir::external({s, here}, [](weir::NativeStream) {});
  graph.launch(s);
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), 6'000, 150);
  weir::sim::set_cost(line_of(here), {.ns = 0});
  const auto again = weir::host_now(device);
  weir::host_call({s, here}, [] {});
  s.synchronize();
  EXPECT_LT(us_since(again, device), 100);
}

// What their functions said comes after the launches: recordings take no more than their limit, and end without an error.
TEST(SimulatedGraphs, of_working_functions_are_recorded_within_the_limit) {
  constexpr int launches = 1000;
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  const weir::Graph graph =
      weir::capture(s, [&] { weir::host_call(s, [] { weir::sim::host_work(std::chrono::microseconds(3)); }); });
  s.synchronize();
  const auto works_of = [&](std::size_t limit, bool times, bool at_once) {
    weir::Recorder recorder({.limit = limit, .times = times});
    for (int i = 0; i < launches; ++i) {
      graph.launch(s);
      if (!at_once && i % 100 == 0) s.synchronize();
    }
    s.synchronize();
    const weir::Recording recording = recorder.finish();
    EXPECT_LE(recording.bytes(), limit);
    std::size_t works = 0;
    for (std::size_t i = 0; i < recording.size(); ++i) works += recording.works(recording.command(i)).size();
    return works;
  };
  for (const bool times : {false, true}) {
    for (const bool at_once : {false, true}) {
      EXPECT_EQ(works_of(weir::Recording::default_limit, times, at_once), static_cast<std::size_t>(launches));
      const std::size_t some = works_of(90'000, times, at_once);
      EXPECT_GT(some, 0u);
      EXPECT_LT(some, static_cast<std::size_t>(launches));
    }
  }
}

// Its launches come one after the other, whatever their streams, and what the host has waited for is over.
TEST(SimulatedGraphs, of_one_profile_run_in_order_in_streams_of_another) {
  const weir::Device device = weir::device("sim:h200"), other = weir::device("sim:cc30");
  const weir::Stream s(device), t(other);
  weir::sim::set_cost("node", {.ns = 2e6});
  const auto work = [](weir::StreamRef stream) {
    weir::launch(stream, weir::Extent{.size = 1, .name = "node"}, [](int) {});
  };
  const weir::Graph graph = weir::capture(s, [&] { work(s); });
  weir::synchronize();
  const auto begin = weir::host_now(device);
  graph.launch(s);
  work(t);
  graph.launch(t);
  EXPECT_FALSE(t.done());
  work(t);
  t.synchronize();
  EXPECT_TRUE(s.done());
  // Behind both the other launch and the stream's first kernel, which ran side by side.
  EXPECT_NEAR(us_since(begin, device), 6000, 100);
}
