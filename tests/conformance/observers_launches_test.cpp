// Launches without names or options take a short way past observers: they are told as all other commands are.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct ToldOnce {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};
struct ToldTwice {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y, int by) const {
    y[i] += by * x[i];
  }
};

/// What it was told of launches, copied.
class ToldLaunches : public weir::Observer {
 public:
  struct One {
    weir::CommandId id;
    weir::StreamId stream;
    std::uint32_t line, thread;
    std::size_t extent;
    const weir::Kernel* kernel;
    std::vector<weir::Region> uses;
    std::vector<weir::StreamId> behind;
  };
  explicit ToldLaunches(weir::Watch watch) { weir::attach(*this, watch); }
  ~ToldLaunches() override { weir::detach(*this); }
  void submitted(const weir::Command& c) override {
    const auto* launch = std::get_if<weir::Launch>(&c.op);
    if (launch == nullptr) return;
    const std::lock_guard lock(mutex_);
    told_.push_back({c.id,
                     c.stream,
                     c.where.line(),
                     c.thread,
                     launch->extent.count(),
                     launch->kernel,
                     {c.uses.begin(), c.uses.end()},
                     {c.behind.begin(), c.behind.end()}});
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span) override {
    const std::lock_guard lock(mutex_);
    ran_.push_back(id);
  }
  std::vector<One> told() {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  std::size_t ran_of(weir::CommandId id) {
    const std::lock_guard lock(mutex_);
    return static_cast<std::size_t>(std::count(ran_.begin(), ran_.end(), id));
  }

 private:
  std::mutex mutex_;
  std::vector<One> told_;
  std::vector<weir::CommandId> ran_;
};

class ObservedLaunches : public AnyDevice {};
ON_EVERY_DEVICE(ObservedLaunches);

TEST_P(ObservedLaunches, are_told_with_what_is_theirs_and_nothing_of_the_one_before) {
  weir::Stream a(device(), {.blocking = false}), b(device());
  const auto x = weir::full<int>(a, 100, 1), y = weir::zeros<int>(a, 100);
  a.synchronize();
  for (const weir::Watch watch : {weir::Watch::commands, weir::Watch::commands | weir::Watch::times}) {
    ToldLaunches all(watch);
    std::uint32_t line = 0;
    for (int turn = 0; turn < 2; ++turn) {
      line = __LINE__;
      weir::launch(a, 50, ToldTwice{}, weir::in(x.slice(10, 60)), weir::inout(y), 2);
      a.synchronize();
      weir::launch(b, 7, ToldOnce{}, weir::inout(x));
      b.synchronize();
      weir::launch(a, 100, ToldOnce{}, weir::inout(y));
      a.synchronize();
    }
    const auto told = all.told();
    ASSERT_EQ(told.size(), 6u);
    for (std::size_t i = 0; i < 6; ++i) {
      EXPECT_EQ(told[i].line, line + 1 + 2 * (i % 3)) << i;
      EXPECT_EQ(told[i].stream, i % 3 == 1 ? b.id() : a.id()) << i;
      EXPECT_EQ(told[i].extent, std::vector<std::size_t>({50, 7, 100})[i % 3]) << i;
      EXPECT_EQ(told[i].kernel == told[0].kernel, i % 3 == 0) << i;
      EXPECT_EQ(told[i].thread, told[0].thread);
      EXPECT_NE(told[i].thread, 0u);
      // The first of a blocking stream comes behind what other tests did in the legacy stream, if somebody watched them.
      if (i != 1) {
        EXPECT_TRUE(told[i].behind.empty()) << i;
      }
      ASSERT_EQ(told[i].uses.size(), i % 3 == 0 ? 2u : 1u) << i;
      for (std::size_t j = 0; j < i; ++j) EXPECT_NE(told[i].id, told[j].id);
    }
    EXPECT_EQ(told[3].uses[0].begin, x.data() + 10);
    EXPECT_EQ(told[3].uses[0].extent_bytes(), 50 * sizeof(int));
    EXPECT_EQ(told[3].uses[0].access, weir::Access::read);
    EXPECT_EQ(told[3].uses[1].begin, y.data());
    EXPECT_EQ(told[4].uses[0].begin, x.data());
    EXPECT_EQ(told[5].uses[0].access, weir::Access::read_write);
    if (watch == weir::Watch::commands) continue;
    for (const auto& one : told) EXPECT_TRUE(eventually([&] { return all.ran_of(one.id) == 1; }));
  }
}

/// Asks when calls were made, or looks whether others did.
class AsksForMoments : public weir::Observer {
 public:
  using Moment = std::chrono::steady_clock::time_point;
  explicit AsksForMoments(bool asks, weir::Watch watch) : asks_(asks) { weir::attach(*this, watch); }
  ~AsksForMoments() override { weir::detach(*this); }
  void submitted(const weir::Command& c) override {
    const Moment moment = asks_ ? c.called() : c.asked_at;
    again = again && (!asks_ || c.called() == moment);
    moments.push_back(moment);
    const std::lock_guard lock(mutex_);
    ids_.push_back(c.id);
  }
  void ran(weir::CommandId id, weir::StreamId, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    if (std::find(ids_.begin(), ids_.end(), id) != ids_.end()) spans_.push_back(span);  // not what was there before
  }
  std::vector<weir::Span> spans() {
    const std::lock_guard lock(mutex_);
    return spans_;
  }
  std::vector<Moment> moments;
  bool again = true;  ///< the same at each question

 private:
  const bool asks_;
  std::mutex mutex_;
  std::vector<weir::CommandId> ids_;
  std::vector<weir::Span> spans_;
};

TEST_P(ObservedLaunches, are_told_with_the_moment_of_their_call_which_is_one_for_all_observers) {
  using Clock = std::chrono::steady_clock;
  const bool all_are_traced = std::getenv("WEIR_TRACE") != nullptr;  // by who has asked before
  const weir::Stream s(device(), {.blocking = false});
  const auto x = weir::zeros<int>(s, 100);
  s.synchronize();
  for (const weir::Watch watch : {weir::Watch::commands, weir::Watch::commands | weir::Watch::times}) {
    AsksForMoments looks(false, watch), first(true, watch), second(true, watch);
    std::vector<Clock::time_point> around{Clock::now()};
    for (int i = 0; i < 3; ++i) {
      // By a way of its own, and by that of all commands.
      i == 2 ? weir::fill(s, x, 1) : weir::launch(s, 100, ToldOnce{}, weir::inout(x));
      around.push_back(Clock::now());
    }
    s.synchronize();
    EXPECT_EQ(first.moments, second.moments);
    EXPECT_TRUE(first.again);
    ASSERT_EQ(first.moments.size(), 3u);
    ASSERT_EQ(looks.moments.size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      EXPECT_EQ(looks.moments[i], all_are_traced ? first.moments[i] : Clock::time_point()) << i;
      EXPECT_GE(first.moments[i], around[i]) << i;
      EXPECT_LE(first.moments[i], around[i + 1]) << i;
    }
    if (watch == weir::Watch::commands) continue;
    ASSERT_TRUE(eventually([&] { return first.spans().size() == 3; }));
    for (std::size_t i = 0; i < 3; ++i) {
      const weir::Span span = first.spans()[i];
      const bool is_real = span.source != weir::Span::Source::simulated;
      EXPECT_TRUE(!is_real || span.begin >= first.moments[i]) << i;
    }
  }
}

/// Holds the callback of a stream's launches while it is told to.
class HoldsLaunches : public weir::Observer {
 public:
  explicit HoldsLaunches(weir::StreamId stream) : stream_(stream) {}
  void submitted(const weir::Command& c) override {
    if (c.stream != stream_ || !std::holds_alternative<weir::Launch>(c.op)) return;
    while (held) {
      inside = true;
      std::this_thread::yield();
    }
    inside = false;
  }
  std::atomic<bool> held{false}, inside{false};

 private:
  weir::StreamId stream_;
};

//  thread: launch, launch [submitted() ......]     detach() meanwhile
TEST_P(ObservedLaunches, that_are_being_told_are_waited_for_by_detach) {
  weir::Stream s(device(), {.blocking = false});
  const auto x = weir::zeros<int>(s, 10);
  HoldsLaunches holds(s.id());
  weir::attach(holds);
  std::thread calls([&] {
    weir::launch(s, 10, ToldOnce{}, weir::inout(x));
    holds.held = true;
    weir::launch(s, 10, ToldOnce{}, weir::inout(x));
  });
  EXPECT_TRUE(eventually([&] { return holds.inside.load(); }));
  std::atomic<bool> detached{false};
  std::thread leaves([&] {
    weir::detach(holds);
    detached = true;
  });
  EXPECT_TRUE(stays(device(), [&] { return !detached; }));
  holds.held = false;
  leaves.join();
  EXPECT_FALSE(holds.inside);
  calls.join();
  s.synchronize();
}

/// Told while others of the stream are not.
class OneAtATime : public weir::Observer {
 public:
  OneAtATime() { weir::attach(*this); }
  ~OneAtATime() override { weir::detach(*this); }
  void submitted(const weir::Command& c) override {
    if (!std::holds_alternative<weir::Launch>(c.op)) return;
    if (inside.fetch_add(1) != 0) ++overlaps;
    ++told;
    inside.fetch_sub(1);
  }
  std::atomic<int> inside{0}, overlaps{0}, told{0};
};

TEST_P(ObservedLaunches, of_threads_that_share_a_stream_are_told_one_at_a_time) {
  weir::Stream s(device(), {.blocking = false});
  const auto x = weir::zeros<int>(s, 1);
  OneAtATime observer;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) weir::launch(s, 1, ToldOnce{}, weir::inout(x));
    });
  }
  for (std::thread& thread : threads) thread.join();
  s.synchronize();
  EXPECT_EQ(observer.overlaps, 0);
  EXPECT_EQ(observer.told, 3000);
  EXPECT_EQ(x.to_host()[0], 3000);
}

/// Is told only while it lives.
class Visitor : public weir::Observer {
 public:
  Visitor() { weir::attach(*this); }
  ~Visitor() override {
    weir::detach(*this);
    here = false;
  }
  void submitted(const weir::Command&) override { late += here ? 0 : 1; }
  static inline std::atomic<int> late{0};
  std::atomic<bool> here{true};
};

TEST_P(ObservedLaunches, go_on_while_observers_come_and_go) {
  std::atomic<bool> done{false};
  std::vector<weir::Array<int>> sums(3);
  std::vector<std::thread> threads;
  for (auto& sum : sums) {
    threads.emplace_back([&] {
      weir::Stream s(device(), {.blocking = false});
      sum = weir::zeros<int>(s, 1);
      for (int i = 0; i < 3000; ++i) weir::launch(s, 1, ToldOnce{}, weir::inout(sum));
      s.synchronize();
    });
  }
  std::thread visits([&] {
    while (!done) {
      const Visitor visitor;
      std::this_thread::yield();
    }
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  visits.join();
  EXPECT_EQ(Visitor::late, 0);
  for (const auto& sum : sums) EXPECT_EQ(sum.to_host()[0], 3000);
}

/// A kernel whose copies wait once its launch has been told.
struct HeldCopy {
  struct Gate {
    std::atomic<bool> told{false}, waits{false}, open{false};
  };
  explicit HeldCopy(Gate& g) : gate(&g) {}
  HeldCopy(const HeldCopy& other) : gate(other.gate) {
    while (gate->told && !gate->open) {
      gate->waits = true;
      std::this_thread::yield();
    }
  }
  void operator()(std::size_t) const {}
  Gate* gate;
};
class OpensCopies : public weir::Observer {
 public:
  explicit OpensCopies(HeldCopy::Gate& gate) : gate_(gate) {}
  void submitted(const weir::Command& c) override {
    if (c.stream == stream) gate_.told = true;
  }
  std::atomic<weir::StreamId> stream{0};

 private:
  HeldCopy::Gate& gate_;
};

//  thread: launch: submitted() [the kernel is copied into the queue ......]     detach() meanwhile
TEST_P(ObservedLaunches, that_were_told_and_are_held_hold_no_detach) {
  if (!on("cpu")) GTEST_SKIP() << "kernels of devices are copied as bytes";
  for (const bool named : {false, true}) {
    HeldCopy::Gate gate;
    weir::Stream s(device(), {.blocking = false});
    OpensCopies observer(gate);
    weir::attach(observer);
    std::thread calls([&] {
      weir::launch(s, 1, weir::host_only([](std::size_t) {}));  // this thread is known from here on
      observer.stream = s.id();
      if (named) {
        weir::launch(s, weir::Extent{.size = 1, .name = "held"}, weir::host_only(HeldCopy(gate)));
      } else {
        weir::launch(s, 1, weir::host_only(HeldCopy(gate)));
      }
    });
    EXPECT_TRUE(eventually([&] { return gate.waits.load(); }));
    {
      const Alarm alarm(liveness_limit, [&] { gate.open = true; });
      weir::detach(observer);
      EXPECT_FALSE(gate.open) << "detach() waited for a call that had told";
    }
    gate.open = true;
    calls.join();
    s.synchronize();
  }
}

}  // namespace
}  // namespace weir_test
