// Host threads that ask simulated devices again and again.
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace {

struct Nothing {
  void operator()(std::size_t) const {}
};

double us_since(std::chrono::steady_clock::time_point begin, weir::Device device) {
  return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
}

/// Two streams with a kernel of a millisecond and one of three.
class Polling : public testing::TestWithParam<const char*> {
 protected:
  Polling() : device_(weir::device(GetParam())), one_(device_), other_(device_) {
    weir::sim::set_cost("1 ms", {.ns = 1e6});
    weir::sim::set_cost("3 ms", {.ns = 3e6});
    device_.synchronize();
    begin_ = weir::host_now(device_);
    weir::launch(one_, weir::Extent{.size = 1, .name = "1 ms"}, Nothing{});
    weir::launch(other_, weir::Extent{.size = 1, .name = "3 ms"}, Nothing{});
  }
  double us() const { return us_since(begin_, device_); }

  weir::Device device_;
  weir::Stream one_, other_;
  std::chrono::steady_clock::time_point begin_;
};

TEST_P(Polling, of_several_streams_in_turn_ends_with_the_last) {
  while (!one_.done() || !other_.done()) {
  }
  EXPECT_NEAR(us(), 3000, 15);
}

TEST_P(Polling, of_several_events_in_turn_hears_of_each_when_it_is_reached) {
  const weir::Event first = one_.record(), last = other_.record();
  double first_us = 0;
  for (bool one = false, other = false; !one || !other;) {
    if (!one && first.done()) {
      one = true;
      first_us = us();
    }
    other = other || last.done();
  }
  EXPECT_GE(first_us, 1000);
  EXPECT_NEAR(us(), 3000, 15);
}

TEST_P(Polling, with_calls_between_that_give_no_work_ends) {
  weir::Event event(device_);
  while (!other_.done()) {
    one_.record(event);
    const weir::Array<float> memory = weir::empty<float>(one_, 10);
  }
  EXPECT_GE(us(), 3000);
}

TEST_P(Polling, of_a_thread_that_computes_between_takes_what_it_computes) {
  (void)other_.done();
  const double asking = us();
  for (int i = 1; i <= 2; ++i) {
    weir::sim::host_work(std::chrono::milliseconds(1));
    const double before = us();
    EXPECT_FALSE(other_.done()) << i;
    EXPECT_LT(us() - before, 1) << i;
    EXPECT_NEAR(us(), asking + i * 1000, 2) << i;
  }
}

// Where asking costs nothing, too: the virtual end is ahead, however soon the real one was.
TEST_P(Polling, that_gives_up_hears_the_same_however_late_the_real_work_is) {
  for (const bool late : {false, true}) {
    weir_test::Gate gate;
    if (!late) gate.open();
    gate.hold(one_);
    const weir::Event event = one_.record();
    if (!late) {
      const weir::Stream waits_for_real(weir::device("cpu"));
      waits_for_real.wait(event);
      waits_for_real.synchronize();
    }
    const double before = us();
    int questions = 0;
    while (questions < 100 && !event.done()) ++questions;
    EXPECT_EQ(questions, 100) << late;
    EXPECT_NEAR(us() - before, std::string(GetParam()) == "sim:h200" ? 50 : 0, 0.01) << late;
    gate.open();
    device_.synchronize();
  }
}

INSTANTIATE_TEST_SUITE_P(SimulatedClock, Polling, testing::Values("sim:h200", "sim:cc30"),
                         [](const auto& one) { return std::string(one.param).substr(4); });

}  // namespace
