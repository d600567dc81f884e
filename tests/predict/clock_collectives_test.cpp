// Collectives on simulated devices: right results, and times as NCCL's between GPUs of the profile.
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/errors.hpp"

using namespace weir_test;

namespace {

using weir::in;
using weir::inout;
using weir::out;

double us_since(std::chrono::steady_clock::time_point begin, weir::Device device) {
  return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
}

struct Wait {
  void operator()(std::size_t) const {}
};

class SimulatedCollectives : public testing::Test {
 protected:
  void work(int rank, double us) {
    weir::sim::set_cost("rank's work", {.ns = us * 1000});
    weir::launch(s_[at(rank)], weir::Extent{.size = 1, .name = "rank's work"}, Wait{});
  }
  weir::Array<float> array(int rank, std::size_t count, float value = 1) {
    return weir::full<float>(s_[at(rank)], count, value);
  }
  double us_of(const weir::TimedEvent& from, const weir::TimedEvent& to) {
    return 1000.0 * static_cast<double>(weir::elapsed(from, to).count());
  }
  void synchronize() {
    for (const weir::Device device : devices_) device.synchronize();
  }
  static std::size_t at(int rank) { return static_cast<std::size_t>(rank); }

  std::vector<weir::Device> devices_{weir::device("sim:h200"), weir::device("sim:h200:1")};
  std::vector<weir::Communicator> comms_ = weir::communicators(devices_, {.name = "grads"});
  std::vector<weir::Stream> s_ = [&] {
    std::vector<weir::Stream> made;
    for (const weir::Device device : devices_) made.emplace_back(device);
    return made;
  }();
};

}  // namespace

TEST_F(SimulatedCollectives, begin_when_the_last_rank_is_there_and_last_as_the_bytes_take) {
  constexpr std::size_t count = 64 << 20;
  auto x = array(0, count, 1), y = array(1, count, 2);
  const weir::TimedEvent begin(devices_[0]), end(devices_[0]), other(devices_[1]);
  synchronize();
  s_[0].record(begin);
  work(1, 5000);
  weir::all_reduce(s_[0], comms_[0], inout(x));
  weir::all_reduce(s_[1], comms_[1], inout(y));
  s_[0].record(end);
  s_[1].record(other);
  synchronize();
  EXPECT_EQ(x.to_host(), std::vector<float>(count, 3));
  EXPECT_EQ(y.to_host(), std::vector<float>(count, 3));
  // 256 MiB take 900 us on two H200s.
  EXPECT_NEAR(us_of(begin, end), 5000 + 900, 90);
}

TEST_F(SimulatedCollectives, of_few_bytes_cost_what_the_host_pays_for_them) {
  auto x = array(0, 2), y = array(1, 2);
  synchronize();
  const auto began = weir::host_now(devices_[0]);
  for (int i = 0; i < 100; ++i) {
    weir::all_reduce(s_[0], comms_[0], inout(x));
    weir::all_reduce(s_[1], comms_[1], inout(y));
  }
  synchronize();
  EXPECT_NEAR(us_since(began, devices_[0]) / 100, 19.5, 1.95) << "one thread, two GPUs, 8 bytes, in a row";
}

TEST_F(SimulatedCollectives, every_kind_takes_its_time) {
  constexpr std::size_t count = 256 << 18;  // 256 MiB
  auto x = array(0, count), y = array(1, count);
  auto half_x = array(0, count / 2), half_y = array(1, count / 2);
  const struct {
    const char* call;
    double us;  ///< of 256 MiB, at the rates of 1 GiB between two H200s
    std::function<void(int, weir::Array<float>&, weir::Array<float>&)> make;
  } kinds[] = {
      {"broadcast", 739,
       [&](int r, auto& whole, auto&) { weir::broadcast(s_[at(r)], comms_[at(r)], inout(whole), 0); }},
      {"send", 727,
       [&](int r, auto& whole, auto&) {
         if (r == 0) weir::send(s_[0], comms_[0], in(whole), 1);
         if (r == 1) weir::receive(s_[1], comms_[1], out(whole), 0);
       }},
      {"all_gather", 497,
       [&](int r, auto& whole, auto& part) { weir::all_gather(s_[at(r)], comms_[at(r)], in(part), out(whole)); }},
      {"reduce_scatter", 487,
       [&](int r, auto& whole, auto& part) { weir::reduce_scatter(s_[at(r)], comms_[at(r)], in(whole), out(part)); }},
  };
  for (const auto& kind : kinds) {
    const weir::TimedEvent begin(devices_[1]), end(devices_[1]);
    synchronize();
    s_[1].record(begin);
    kind.make(0, x, half_x);
    kind.make(1, y, half_y);
    s_[1].record(end);
    synchronize();
    EXPECT_NEAR(us_of(begin, end), kind.us, 0.1 * kind.us) << kind.call;
  }
}

TEST_F(SimulatedCollectives, of_one_communicator_follow_each_other_whatever_their_streams) {
  constexpr std::size_t count = 1 << 20;
  auto x = array(0, count), y = array(1, count);
  const weir::Stream more[] = {weir::Stream(devices_[0]), weir::Stream(devices_[1])};
  synchronize();
  work(0, 3000);
  auto barrier = [&](const weir::Stream& a, const weir::Stream& b) {
    weir::barrier(a, comms_[0]);
    weir::barrier(b, comms_[1]);
  };
  const auto began = weir::host_now(devices_[0]);
  barrier(s_[0], s_[1]);
  barrier(more[0], more[1]);
  more[1].synchronize();
  EXPECT_GT(us_since(began, devices_[0]), 2900) << "the second barrier comes behind the first";
}

TEST_F(SimulatedCollectives, in_a_group_send_both_ways_at_once) {
  constexpr std::size_t count = 1 << 20;
  auto x = array(0, count, 1), y = array(1, count, 2), from_x = array(1, count, 0), from_y = array(0, count, 0);
  synchronize();
  const auto began = weir::host_now(devices_[0]);
  {
    weir::CollectiveGroup group;
    weir::send(s_[0], comms_[0], in(x), 1);
    weir::receive(s_[0], comms_[0], out(from_y), 1);
    weir::send(s_[1], comms_[1], in(y), 0);
    weir::receive(s_[1], comms_[1], out(from_x), 0);
  }
  synchronize();
  EXPECT_LT(us_since(began, devices_[0]), 200);
  EXPECT_TRUE(s_[0].done());
  EXPECT_EQ(from_x.to_host(), std::vector<float>(count, 1));
  EXPECT_EQ(from_y.to_host(), std::vector<float>(count, 2));
}

TEST_F(SimulatedCollectives, hold_what_comes_behind_and_are_in_the_timeline) {
  auto x = array(0, 8), y = array(1, 8);
  synchronize();
  work(1, 1000);
  weir::all_reduce(s_[0], comms_[0], inout(x));
  work(0, 1);
  weir::all_reduce(s_[1], comms_[1], inout(y));
  synchronize();
  const weir::sim::Prediction all = weir::sim::timeline(devices_[0]);
  ASSERT_GE(all.commands.size(), 4u);
  const auto* const last = &all.commands[all.commands.size() - 4];
  EXPECT_EQ(last[1].engine, weir::sim::Engine::peer);
  EXPECT_EQ(last[3].engine, weir::sim::Engine::peer);
  EXPECT_EQ(last[1].begin_us, last[3].begin_us);
  EXPECT_EQ(last[1].end_us, last[3].end_us);
  EXPECT_EQ(last[1].held_by, weir::sim::Cause::order);
  EXPECT_GE(last[1].begin_us, last[0].end_us);
  EXPECT_GE(last[2].begin_us, last[1].end_us);
}

// The real call does not wait for room that depends on a rank that calls later, and nor does the virtual one.
TEST_F(SimulatedCollectives, R3_a_rank_that_is_far_ahead_keeps_no_other_from_calling) {
  synchronize();
  weir::barrier(s_[0], comms_[0]);
  for (int i = 0; i < 3000; ++i) work(0, 1);
  weir::barrier(s_[1], comms_[1]);
  synchronize();
  EXPECT_TRUE(s_[0].done());
  work(0, 7000);
  const auto began = weir::host_now(devices_[0]);
  s_[0].synchronize();
  EXPECT_NEAR(us_since(began, devices_[0]), 7000, 50) << "the clock goes on";
}

TEST_F(SimulatedCollectives, that_fail_hold_nobody_afterwards) {
  auto comms = weir::communicators(devices_, {.name = "brief", .timeout = std::chrono::milliseconds(50)});
  synchronize();
  weir::barrier(s_[0], comms[0]);
  const auto error = error_of([&] { s_[0].synchronize(); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->errc(), weir::Errc::collective_timeout);
  const auto began = weir::host_now(devices_[0]);
  work(0, 7000);
  s_[0].synchronize();
  EXPECT_NEAR(us_since(began, devices_[0]), 7000, 50);
}

TEST_F(SimulatedCollectives, captured_ones_give_what_plain_ones_do) {
  auto x = array(0, 1000, 1), y = array(1, 1000, 2);
  synchronize();
  weir::capture_begin(s_[0]);
  s_[1].wait(s_[0]);
  weir::all_reduce(s_[0], comms_[0], inout(x));
  weir::all_reduce(s_[1], comms_[1], inout(y));
  s_[0].wait(s_[1]);
  const weir::Graph graph = weir::capture_end(s_[0]);
  graph.launch(s_[0]);
  s_[0].synchronize();
  EXPECT_EQ(x.to_host(), std::vector<float>(1000, 3));
  EXPECT_EQ(y.to_host(), std::vector<float>(1000, 3));
}

TEST(SimulatedCommunicators, are_of_devices_of_one_profile_and_one_process) {
  const weir::Device h200 = weir::device("sim:h200"), cc30 = weir::device("sim:cc30");
  const auto why = [](const std::vector<weir::Device>& devices) {
    const auto error = error_of([&] { weir::communicators(devices); });
    return error && error->errc() == weir::Errc::not_supported ? std::string(error->what()) : std::string();
  };
  EXPECT_NE(
      why({h200, cc30}).find("sim:h200 and sim:cc30 have no link: collectives run among simulated devices of one"),
      std::string::npos);
  EXPECT_NE(why({h200, weir::device("cpu")}).find("have no transport in common"), std::string::npos);
}
