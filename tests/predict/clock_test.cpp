// The virtual clock of simulated devices: a program runs for real, and its times are the profile's.
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recorder.hpp>
#include <weir/sim.hpp>
#include <weir/weir.hpp>

#include "support/errors.hpp"

using namespace weir_test;
using std::chrono::milliseconds;

namespace {

struct Work {
  void operator()(std::size_t i, weir::View<float> data) const { data[i] += 1; }
};
struct Other {
  void operator()(std::size_t i, weir::View<float> data) const { data[i] += 1; }
};
struct Nothing {
  void operator()(std::size_t) const {}
};

constexpr std::size_t million = 1'000'000;

double us_since(std::chrono::steady_clock::time_point begin, weir::Device device) {
  return std::chrono::duration<double, std::micro>(weir::host_now(device) - begin).count();
}

/// The text's pipeline in a C++ program: H copy in, K kernel of blocks of 2 ms, D copy out, of two streams.
struct Case {
  const char* name;
  int h, blocks, d;
};
constexpr std::array<Case, 3> cases{{{"long copies", 4, 4, 4}, {"long kernels", 2, 4, 2}, {"three waves", 2, 40, 2}}};

class Pipeline {
 public:
  Pipeline(const std::string& profile, const Case& of)
      : device_(weir::device("sim:" + profile)),
        case_(of),
        host_(weir::empty<std::uint8_t>(weir::pinned, 8 * million)),
        data_(weir::empty<std::uint8_t>(weir::legacy_stream(device_), 8 * million)) {
    for (int i = 0; i < 2; ++i) streams_.emplace_back(device_);
    const double ms = std::string(of.name) == "long kernels" ? 6 : 2;
    weir::sim::set_cost("K", {.blocks = static_cast<std::uint64_t>(of.blocks), .threads = 256, .block_ns = ms * 1e6});
    device_.synchronize();
  }

  void depth() {
    for (int i = 0; i < 2; ++i) {
      copy_in(i);
      kernel(i);
      copy_out(i);
    }
  }
  void breadth() {
    for (int i = 0; i < 2; ++i) copy_in(i);
    for (int i = 0; i < 2; ++i) kernel(i);
    for (int i = 0; i < 2; ++i) copy_out(i);
  }
  void copy_in(int i) { weir::copy(streams_[at(i)], half(data_, i, case_.h), half(host_, i, case_.h)); }
  void kernel(int i) { weir::launch(streams_[at(i)], weir::Extent{.size = 1, .name = "K"}, Nothing{}); }
  void copy_out(int i) { weir::copy(streams_[at(i)], half(host_, i, case_.d), half(data_, i, case_.d)); }

  weir::StreamRef stream(int i) const { return streams_[at(i)]; }
  weir::Device device() const { return device_; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static std::size_t bytes(int ms) { return static_cast<std::size_t>(ms) * million; }
  static weir::Slice<std::uint8_t> half(const weir::Array<std::uint8_t>& array, int i, int ms) {
    const std::size_t begin = at(i) * 4 * million;
    return array.slice(begin, begin + bytes(ms));
  }

  weir::Device device_;
  Case case_;
  weir::Array<std::uint8_t> host_, data_;
  std::vector<weir::Stream> streams_;
};

/// What the last `count` commands took, in milliseconds since the first of them was issued.
std::vector<weir::sim::PredictedCommand> last_commands(weir::Device device, std::size_t count) {
  const weir::sim::Prediction all = weir::sim::timeline(device);
  EXPECT_GE(all.commands.size(), count);
  std::vector<weir::sim::PredictedCommand> last(all.commands.end() - static_cast<std::ptrdiff_t>(count),
                                                all.commands.end());
  const double begin = last.front().issued_us;
  for (weir::sim::PredictedCommand& one : last) {
    one.begin_us = (one.begin_us - begin) / 1000;
    one.end_us = (one.end_us - begin) / 1000;
    one.last_block_us = (one.last_block_us - begin) / 1000;
  }
  return last;
}

}  // namespace

// The 18 rows of the text's example, run as a program: begin and end of each command, in milliseconds.
TEST(SimulatedClock, C11_the_texts_loops_take_the_times_of_the_rules) {
  struct Row {
    int of;
    const char *profile, *order;
    std::array<double, 12> times;  // H0, K0, D0, H1, K1, D1
    double last_block;
  };
  const std::vector<Row> rows = {
      {0, "fermi-1-engine", "depth", {0, 4, 4, 6, 6, 10, 10, 14, 14, 16, 16, 20}, 14},
      {0, "fermi-1-engine", "breadth", {0, 4, 4, 6, 8, 12, 4, 8, 8, 10, 12, 16}, 8},
      {0, "kepler-2-engines", "depth", {0, 4, 4, 6, 6, 10, 4, 8, 8, 10, 10, 14}, 8},
      {0, "kepler-2-engines", "breadth", {0, 4, 4, 6, 6, 10, 4, 8, 8, 10, 10, 14}, 8},
      {0, "cc30", "depth", {0, 4, 4, 6, 6, 10, 4, 8, 8, 10, 10, 14}, 8},
      {0, "cc30", "breadth", {0, 4, 4, 6, 8, 12, 4, 8, 8, 10, 12, 16}, 8},
      {1, "fermi-1-engine", "depth", {0, 2, 2, 8, 8, 10, 10, 12, 12, 18, 18, 20}, 12},
      {1, "fermi-1-engine", "breadth", {0, 2, 2, 8, 8, 10, 2, 4, 4, 10, 10, 12}, 4},
      {1, "kepler-2-engines", "depth", {0, 2, 2, 8, 8, 10, 2, 4, 4, 10, 10, 12}, 4},
      {1, "kepler-2-engines", "breadth", {0, 2, 2, 8, 8, 10, 2, 4, 4, 10, 10, 12}, 4},
      {1, "cc30", "depth", {0, 2, 2, 8, 8, 10, 2, 4, 8, 14, 14, 16}, 8},
      {1, "cc30", "breadth", {0, 2, 2, 8, 8, 10, 2, 4, 4, 10, 10, 12}, 4},
      {2, "fermi-1-engine", "depth", {0, 2, 2, 8, 8, 10, 10, 12, 12, 18, 18, 20}, 16},
      {2, "fermi-1-engine", "breadth", {0, 2, 2, 8, 10, 12, 2, 4, 6, 12, 12, 14}, 10},
      {2, "kepler-2-engines", "depth", {0, 2, 2, 8, 8, 10, 2, 4, 6, 12, 12, 14}, 10},
      {2, "kepler-2-engines", "breadth", {0, 2, 2, 8, 8, 10, 2, 4, 6, 12, 12, 14}, 10},
      {2, "cc30", "depth", {0, 2, 2, 8, 8, 10, 2, 4, 8, 14, 14, 16}, 12},
      {2, "cc30", "breadth", {0, 2, 2, 8, 10, 12, 2, 4, 6, 12, 12, 14}, 10},
  };
  for (const Row& row : rows) {
    const Case& of = cases[static_cast<std::size_t>(row.of)];
    SCOPED_TRACE(std::string(of.name) + ", " + row.profile + ", " + row.order);
    Pipeline pipeline(row.profile, of);
    const bool depth = std::string(row.order) == "depth";
    depth ? pipeline.depth() : pipeline.breadth();
    pipeline.device().synchronize();
    const std::vector<weir::sim::PredictedCommand> ran = last_commands(pipeline.device(), 6);
    // In the order of issue: H0 K0 D0 H1 K1 D1, or H0 H1 K0 K1 D0 D1.
    const std::array<std::size_t, 6> order =
        depth ? std::array<std::size_t, 6>{0, 1, 2, 3, 4, 5} : std::array<std::size_t, 6>{0, 2, 4, 1, 3, 5};
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_NEAR(ran[order[i]].begin_us, row.times[2 * i], 1e-6) << i;
      EXPECT_NEAR(ran[order[i]].end_us, row.times[2 * i + 1], 1e-6) << i;
    }
    EXPECT_NEAR(ran[order[4]].last_block_us, row.last_block, 1e-6);
  }
}

TEST(SimulatedClock, C11_a_query_checks_the_launch_before_it) {
  for (const auto& [profile, asks, begin] :
       {std::tuple{"cc30", true, 6.0}, std::tuple{"cc30", false, 0.0}, std::tuple{"kepler-2-engines", true, 0.0}}) {
    Pipeline pipeline(profile, cases[1]);
    pipeline.kernel(0);
    if (asks) {
      EXPECT_FALSE(pipeline.stream(0).done());
    }
    pipeline.kernel(1);
    pipeline.device().synchronize();
    EXPECT_NEAR(last_commands(pipeline.device(), 2)[1].begin_us, begin, 1e-6) << profile << asks;
  }
}

TEST(SimulatedClock, C11_independent_work_first_is_faster_where_launches_are_checked) {
  const Case of{"four blocks", 0, 4, 0};
  for (const auto& [profile, independent, end] :
       {std::tuple{"cc30", false, 6.0}, std::tuple{"cc30", true, 4.0}, std::tuple{"kepler-2-engines", false, 4.0}}) {
    Pipeline pipeline(profile, of);
    for (const int stream : independent ? std::array{0, 1, 0, 1} : std::array{0, 0, 1, 1}) pipeline.kernel(stream);
    pipeline.device().synchronize();
    double last = 0;
    for (const auto& one : last_commands(pipeline.device(), 4)) last = std::max(last, one.end_us);
    EXPECT_NEAR(last, end, 1e-6) << profile << independent;
  }
}

// What the host does between two commands separates them on devices of old, and does not on an H200.
TEST(SimulatedClock, C10_some_calls_synchronise_implicitly) {
  const std::map<std::string, std::function<void(Pipeline&)>> calls = {
      {"pinned memory", [](Pipeline&) { (void)weir::empty<float>(weir::pinned, 8); }},
      {"device memory", [](Pipeline& p) { (void)weir::empty<float>(p.stream(1), 8); }},
      {"a fill",
       [](Pipeline& p) {
         static std::map<std::string, std::shared_ptr<weir::Array<float>>> arrays;
         auto& array = arrays[p.device().name()];
         if (!array) array = std::make_shared<weir::Array<float>>(weir::empty<float>(p.stream(1), 8));
         weir::fill(p.stream(1), *array, 1.0f);
       }},
      {"the legacy stream",
       [](Pipeline& p) {
         weir::launch(weir::legacy_stream(p.device()), weir::Extent{.size = 1, .name = "short"}, Nothing{});
       }},
  };
  for (const auto& [name, call] : calls) {
    for (const std::string profile : {"kepler-2-engines", "h200"}) {
      Pipeline pipeline(profile, cases[1]);
      call(pipeline);  // what it makes once
      pipeline.device().synchronize();
      const auto begin = weir::host_now(pipeline.device());
      pipeline.kernel(0);
      call(pipeline);
      pipeline.kernel(1);
      pipeline.device().synchronize();
      const double ms = us_since(begin, pipeline.device()) / 1000;
      const bool separates = profile != "h200" || name == "the legacy stream";
      EXPECT_NEAR(ms, separates ? 12 : 6, 0.2) << name << " on " << profile;
    }
  }
}

TEST(SimulatedClock, only_calls_and_named_work_move_the_hosts_time) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  s.synchronize();
  const auto begin = weir::host_now(device);
  const auto real = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - real < milliseconds(2)) {
  }
  EXPECT_EQ(us_since(begin, device), 0) << "the program's own computing costs nothing";
  weir::sim::host_work(milliseconds(5));
  EXPECT_NEAR(us_since(begin, device), 5000, 0.0021);
  weir::sim::set_cost("ten ms", {.ns = 1e7});
  weir::launch(s, weir::Extent{.size = 1, .name = "ten ms"}, Nothing{});
  EXPECT_NEAR(us_since(begin, device), 5000 + 3.158, 1e-3) << "a launch costs what the profile says";
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), 15'000, 20);
  EXPECT_NE(weir::host_now(weir::device("cpu")), weir::host_now(weir::device("cpu")) + milliseconds(1));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [] { weir::sim::host_work(milliseconds(-1)); }, {"host_work"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [] { weir::sim::set_cost("", {}); }, {"set_cost"}));
  for (const weir::recorded::Cost& none : {weir::recorded::Cost{.blocks = 0}, weir::recorded::Cost{.threads = 0}})
    EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { weir::sim::set_cost("K", none); }, {"one block", "'K'"}));
  for (const double ns : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [=] { weir::sim::set_cost("K", {.ns = ns}); }, {"'K'"})) << ns;
    EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [=] { weir::sim::set_cost("K", {.block_ns = ns}); }, {"'K'"}));
  }
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [] { (void)weir::sim::timeline(weir::device("cpu")); }, {"cpu"}));
}

TEST(SimulatedClock, events_and_timers_tell_the_devices_time) {
  const weir::Stream s(weir::device("sim:h200"));
  weir::sim::set_cost("Work", {.ns = 7e6});
  weir::Array<float> data = weir::zeros<float>(s, 100);
  s.synchronize();
  const weir::TimedEvent start = s.record_timed();
  weir::launch(s, 100, Work{}, weir::inout(data));
  const weir::TimedEvent end = s.record_timed();
  EXPECT_FALSE(end.done()) << "by the virtual clock the kernel still runs";
  EXPECT_TRUE(fails_with(weir::Errc::not_ready, [&] { (void)weir::elapsed(start, end); }, {"the end event"}));
  end.synchronize();
  EXPECT_NEAR(weir::elapsed(start, end).count(), 7, 0.02);
  EXPECT_EQ(data.to_host()[7], 1) << "and it ran";
  float timed = 0;
  {
    const weir::ScopedTimer timer(s, "", [&](std::string_view, weir::Milliseconds ms) { timed = ms.count(); });
    weir::launch(s, 100, Work{}, weir::inout(data));
  }
  EXPECT_NEAR(timed, 7, 0.02);
}

TEST(SimulatedClock, polling_loops_end_and_end_at_the_same_time) {
  for (const char* name : {"sim:h200", "sim:cc30"}) {
    const weir::Stream s(weir::device(name));
    weir::sim::set_cost("1 ms", {.ns = 1e6});
    s.synchronize();
    const auto poll = [&] {
      const auto begin = weir::host_now(s.device());
      weir::launch(s, weir::Extent{.size = 1, .name = "1 ms"}, Nothing{});
      while (!s.done()) {
      }
      const double us = us_since(begin, s.device());
      EXPECT_TRUE(s.done());
      EXPECT_EQ(us_since(begin, s.device()), us) << "who asks when it is over loses no time";
      return us;
    };
    const double us = poll();
    EXPECT_NEAR(us, 1000, 10) << name;
    EXPECT_NEAR(poll(), us, 0.0021) << name << ", to the nanosecond of each reading";
  }
}

TEST(SimulatedClock, observers_are_told_the_devices_times) {
  struct Times : weir::Observer {
    void ran(weir::CommandId id, weir::StreamId, weir::Span span) override { spans[id] = span; }
    void submitted(const weir::Command& command) override { ids.push_back(command.id); }
    std::map<weir::CommandId, weir::Span> spans;
    std::vector<weir::CommandId> ids;
  };
  const weir::Stream s(weir::device("sim:h200"));
  weir::sim::set_cost("3 ms", {.ns = 3e6});
  s.synchronize();
  Times times;
  weir::attach(times);
  for (int i = 0; i < 3; ++i) weir::launch(s, weir::Extent{.size = 1, .name = "3 ms"}, Nothing{});
  s.synchronize();
  weir::detach(times);
  ASSERT_EQ(times.ids.size(), 3u);
  ASSERT_EQ(times.spans.size(), 3u) << "told when the host has waited";
  for (const weir::CommandId id : times.ids) {
    const weir::Span span = times.spans[id];
    EXPECT_NEAR(std::chrono::duration<double>(span.end - span.begin).count(), 0.003, 1e-5);
  }
  EXPECT_GE(times.spans[times.ids[1]].begin, times.spans[times.ids[0]].end);
}

TEST(SimulatedClock, R3_a_full_stream_holds_the_virtual_host_not_the_call) {
  const weir::Stream s(weir::device("sim:h200"));
  weir::sim::set_cost("100 us", {.ns = 1e5});
  s.synchronize();
  const auto begin = weir::host_now(s.device());
  for (int i = 0; i < 1021; ++i) weir::launch(s, weir::Extent{.size = 1, .name = "100 us"}, Nothing{});
  const double before = us_since(begin, s.device());
  EXPECT_NEAR(before, 1021 * 3.158, 100) << "there is room for 1,021 commands, and some have ended";
  for (int i = 0; i < 1021; ++i) weir::launch(s, weir::Extent{.size = 1, .name = "100 us"}, Nothing{});
  EXPECT_GT(us_since(begin, s.device()), 100'000) << "the first of them waited for room";
  s.synchronize();
  EXPECT_NEAR(us_since(begin, s.device()), 2042 * 101.7, 2000);
}

TEST(SimulatedClock, graphs_take_their_branches_side_by_side) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device), t(device);
  weir::sim::set_cost("branch", {.ns = 4e6});
  const auto branch = [](weir::StreamRef stream) {
    weir::launch(stream, weir::Extent{.size = 1, .name = "branch"}, Nothing{});
  };
  weir::TimedEvent inside(device);
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    branch(s);
    branch(t);
    s.record(inside);
    branch(s);
    s.wait(t);
  });
  s.synchronize();
  const auto begin = weir::host_now(device);
  const weir::TimedEvent start = s.record_timed();
  graph.launch(s);
  s.synchronize();
  EXPECT_NEAR(us_since(begin, device), 8000, 30);
  EXPECT_NEAR(weir::elapsed(start, inside).count(), 4, 0.03);
}

// What happens is told by the recording, too.
TEST(SimulatedClock, R143_graphs_wait_for_events_of_others_and_record_some) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device), t(device), after(device);
  weir::sim::set_cost("long", {.ns = 4e6});
  const auto work = [](weir::StreamRef stream) {
    weir::launch(stream, weir::Extent{.size = 1, .name = "long"}, Nothing{});
  };
  weir::sim::host_work(milliseconds(1));
  const auto begin = weir::host_now(device);
  weir::Recorder recorder;
  const weir::Event go(device), done(device);
  const weir::Graph graph = weir::capture(s, [&] {
    work(s);
    weir::wait_external(s, go);
    work(s);
    weir::record_external(s, done);
    work(s);
  });
  for (int turn = 0; turn < 2; ++turn) {
    for (int i = 0; i < 3; ++i) work(t);
    t.record(go);
    graph.launch(s);
    after.wait(done);
    work(after);
    after.synchronize();
    EXPECT_NEAR(us_since(begin, device), (20 * turn + 20) * 1000, 100 * (turn + 1));
    s.synchronize();
  }
  const double us = us_since(begin, device);
  EXPECT_NEAR(weir::sim::predict(recorder.finish(), {.gains = false}).makespan_us, us, 1);
}

TEST(SimulatedClock, threads_have_times_of_their_own_and_hand_offs_carry_them) {
  const weir::Device device = weir::device("sim:h200");
  const weir::Stream s(device);
  s.synchronize();
  const auto begin = weir::host_now(device);
  weir::HandOff hand_off;
  double of_thread = 0;
  std::thread([&] {
    weir::sim::host_work(milliseconds(20));
    of_thread = us_since(begin, device);
    hand_off.give();
  }).join();
  EXPECT_GE(of_thread, 20'000);
  EXPECT_EQ(us_since(begin, device), 0) << "the other thread's work is not this one's";
  hand_off.take();
  EXPECT_NEAR(us_since(begin, device), of_thread, 0.0021);
}

TEST(SimulatedClock, copies_and_peers_move_at_the_profiles_rates) {
  const weir::Stream s(weir::device("sim:h200"));
  const weir::Stream other(weir::device("sim:h200:1"));
  constexpr std::size_t bytes = 100 * million;
  weir::Array<std::uint8_t> host = weir::empty<std::uint8_t>(weir::pinned, bytes);
  weir::Array<std::uint8_t> here = weir::empty<std::uint8_t>(s, bytes), there = weir::empty<std::uint8_t>(other, bytes);
  weir::synchronize();
  const auto ms_of = [&](auto&& call) {
    const weir::TimedEvent begin = s.record_timed();
    call();
    const weir::TimedEvent end = s.record_timed();
    end.synchronize();
    return weir::elapsed(begin, end).count();
  };
  EXPECT_NEAR(ms_of([&] { weir::copy(s, here, host); }), 100 / 55.53, 0.02);
  EXPECT_NEAR(ms_of([&] { weir::copy(s, host, here); }), 100 / 55.40, 0.02);
  EXPECT_NEAR(ms_of([&] { weir::copy(s, there, here); }), 100 / 396.0, 0.03);
}

TEST(SimulatedClock, a_timeline_has_the_numbers_of_a_prediction) {
  const weir::Stream s(weir::device("sim:h200"));
  weir::Array<float> data = weir::empty<float>(s, million);
  weir::launch(s, weir::Extent{.size = million, .name = "timeline"}, Other{}, weir::inout(data));
  s.synchronize();
  const weir::sim::Prediction all = weir::sim::timeline(s.device());
  EXPECT_EQ(all.profile, "h200");
  ASSERT_FALSE(all.commands.empty());
  EXPECT_EQ(all.commands.back().engine, weir::sim::Engine::kernel);
  EXPECT_GT(all.commands.back().end_us, all.commands.back().begin_us);
  EXPECT_GE(all.makespan_us, all.commands.back().end_us);
  EXPECT_FALSE(all.critical_path.empty());
  ASSERT_EQ(all.estimated.size(), 1u);
  EXPECT_NE(all.estimated[0].find("timeline"), std::string::npos) << all.estimated[0];
}

TEST(SimulatedClock, observers_are_told_what_the_host_was_said_to_do_and_what_launches_were_said_to_cost) {
  struct Watcher final : weir::Observer {
    void worked(const weir::HostWork& work) override { works.push_back(work); }
    void submitted(const weir::Command& command) override {
      if (const auto* launch = std::get_if<weir::Launch>(&command.op)) costs.push_back(weir::sim::cost_of(*launch));
    }
    std::vector<weir::HostWork> works;
    std::vector<std::optional<weir::recorded::Cost>> costs;
  } watcher;
  const weir::Stream s(weir::device("sim:h200"));
  weir::sim::set_cost("costs 7 us a block", {.block_ns = 7000});
  weir::attach(watcher, weir::Watch::commands | weir::Watch::host);
  const std::uint32_t line = __LINE__ + 1;
  weir::sim::host_work(milliseconds(3));
  weir::launch(s, weir::Extent{.size = 1000, .block = 128, .name = "costs 7 us a block"}, Nothing{});
  weir::launch(s, weir::Extent{.size = 1000, .name = "of which nothing was said"}, Nothing{});
  weir::detach(watcher);
  s.synchronize();
  ASSERT_EQ(watcher.works.size(), 1u);
  EXPECT_EQ(watcher.works[0].time, milliseconds(3));
  EXPECT_EQ(watcher.works[0].where.line(), line);
  ASSERT_EQ(watcher.costs.size(), 2u);
  ASSERT_TRUE(watcher.costs[0]);
  EXPECT_EQ(watcher.costs[0]->block_ns, 7000);
  EXPECT_EQ(watcher.costs[0]->threads, 128u);
  EXPECT_EQ(watcher.costs[0]->blocks, 8u);
  EXPECT_FALSE(watcher.costs[1]);
}

TEST(SimulatedDevice, stands_in_for_gpus_where_the_environment_says_so) {
  const weir::Device simulated = weir::device("sim:h200"), second = weir::device("sim:h200:1");
  setenv("WEIR_AS_CUDA", "sim:h200", 1);
  EXPECT_EQ(weir::device("cuda"), simulated);
  EXPECT_EQ(weir::device("cuda:0"), simulated);
  EXPECT_EQ(weir::device("cuda:1"), second);
  const std::vector<weir::Device> all = weir::devices("cuda");
  ASSERT_GE(all.size(), 2u);
  EXPECT_EQ(all[0], simulated);
  EXPECT_EQ(weir::why_absent("cuda"), "");
  EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [] { weir::device("cuda:x"); }, {"sim:h200:x"}));
  setenv("WEIR_AS_CUDA", "sim:nothing", 1);
  EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [] { weir::device("cuda"); }, {"nothing"}));
  setenv("WEIR_AS_CUDA", "cpu", 1);
  EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [] { weir::device("cuda"); },
                         {"WEIR_AS_CUDA", "'cpu'", "no simulated device"}));
  setenv("WEIR_AS_CUDA", "sim:h200:1", 1);
  EXPECT_TRUE(fails_with(weir::Errc::unknown_device, [] { weir::device("cuda:1"); },
                         {"WEIR_AS_CUDA", "'sim:h200:1'", "name the profile alone, sim:h200, whose"}));
  unsetenv("WEIR_AS_CUDA");
}
