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
