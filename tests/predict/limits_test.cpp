// What an H200 was measured to take for the smallest things, and what a simulated one takes: 10 % each.
#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include <weir/graph.hpp>
#include <weir/host_call.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

namespace {

struct Nothing {
  void operator()(std::size_t) const {}
};

class Limits : public testing::Test {
 protected:
  Limits() : device(weir::device("sim:h200")), s(device), other(device) {
    weir::sim::set_cost("empty", {.ns = 0, .blocks = 1, .threads = 32});
    device.synchronize();
  }
  static void empty(weir::StreamRef stream) {
    weir::launch(stream, weir::Extent{.size = 1, .name = "empty"}, Nothing{});
  }
  double us_of(const std::function<void()>& calls) const {
    device.synchronize();
    const auto begin = weir::host_now(device);
    calls();
    return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
  }
  static void expect_within_10_percent(double us, double measured) { EXPECT_NEAR(us, measured, 0.1 * measured); }

  weir::Device device;
  weir::Stream s, other;
};

}  // namespace

TEST_F(Limits, launch_and_wait) {
  expect_within_10_percent(us_of([&] {
                             empty(s);
                             s.synchronize();
                           }),
                           8.14);
}

// Two streams in turn: a kernel, a record, a wait.
TEST_F(Limits, hop_with_a_kernel) {
  const weir::Event event(device);
  constexpr int hops = 1000;
  expect_within_10_percent(us_of([&] {
                             for (int i = 0; i < hops; ++i) {
                               const weir::StreamRef here = i % 2 == 0 ? s : other, there = i % 2 == 0 ? other : s;
                               empty(here);
                               here.record(event);
                               there.wait(event);
                             }
                             device.synchronize();
                           }) / hops,
                           3.39);
}

TEST_F(Limits, host_function_and_wait) {
  expect_within_10_percent(us_of([&] {
                             weir::host_call(s, [] {});
                             s.synchronize();
                           }),
                           8.6);
}

TEST_F(Limits, graphs_of_100_kernels) {
  weir::Graph chain = weir::capture(s, [&] {
    for (int i = 0; i < 100; ++i) empty(s);
  });
  expect_within_10_percent(us_of([&] {
                             chain.launch(s);
                             s.synchronize();
                           }),
                           73.7);
  std::vector<weir::Stream> branches;
  for (int i = 0; i < 9; ++i) branches.emplace_back(device);
  const weir::Event fork(device);
  weir::Graph wide = weir::capture(s, [&] {
    s.record(fork);
    for (int i = 0; i < 10; ++i) empty(s);
    for (const weir::Stream& branch : branches) {
      branch.wait(fork);
      for (int i = 0; i < 10; ++i) empty(branch);
      s.wait(weir::StreamRef(branch));
    }
  });
  expect_within_10_percent(us_of([&] {
                             wide.launch(s);
                             s.synchronize();
                           }),
                           24.8);
}

TEST_F(Limits, copies_both_ways_and_to_a_peer) {
  constexpr std::size_t bytes = std::size_t{1} << 26;
  weir::Array<std::uint8_t> in = weir::empty<std::uint8_t>(weir::pinned, bytes),
                            out = weir::empty<std::uint8_t>(weir::pinned, bytes);
  weir::Array<std::uint8_t> x = weir::empty<std::uint8_t>(s, bytes), y = weir::empty<std::uint8_t>(other, bytes);
  expect_within_10_percent(2.0 * bytes / 1000 / us_of([&] {
                             weir::copy(s, x, in);
                             weir::copy(other, out, y);
                             device.synchronize();
                           }),
                           101.7);
  const weir::Stream theirs(weir::device("sim:h200:1"));
  weir::Array<std::uint8_t> there = weir::empty<std::uint8_t>(theirs, bytes);
  weir::synchronize();
  expect_within_10_percent(1.0 * bytes / 1000 / us_of([&] {
                             weir::copy(s, there, x);
                             s.synchronize();
                           }),
                           396);
}

// R17: a big grid in one stream, a smaller one in another, at a higher and at the same priority.
TEST_F(Limits, R17_a_more_urgent_grid_goes_before_blocks_that_wait) {
  for (const bool urgent : {true, false}) {
    const weir::Stream small(device, weir::StreamOptions{.priority = urgent ? -5 : 0});
    weir::sim::set_cost("big", {.blocks = 10 * 8 * 132, .threads = 256, .block_ns = 10e6});
    weir::sim::set_cost("small", {.blocks = 132, .threads = 256, .block_ns = 1e6});
    double small_ms = 0;
    const double big_ms = us_of([&] {
                            weir::launch(s, weir::Extent{.size = 1, .name = "big"}, Nothing{});
                            const auto begin = weir::host_now(device);
                            weir::launch(small, weir::Extent{.size = 1, .name = "small"}, Nothing{});
                            small.synchronize();
                            small_ms =
                                std::chrono::duration<double, std::milli>(weir::host_now(device) - begin).count();
                            device.synchronize();
                          }) /
                          1000;
    expect_within_10_percent(big_ms, urgent ? 100.6 : 100.1);
    expect_within_10_percent(small_ms, urgent ? 11.0 : 100.6);
  }
}
