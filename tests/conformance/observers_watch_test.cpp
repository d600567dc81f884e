// Observers are told what they watch, of several streams at a time, and nothing behind their end.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string_view>
#include <thread>
#include <variant>
#include <vector>

#include "support/any_device.hpp"
#include "support/between_looks.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

/// Counts what it is told: times of one stream alone, for those of commands from before may come late.
class Counts : public weir::Observer {
 public:
  explicit Counts(weir::Watch watch) { weir::attach(*this, watch); }
  ~Counts() override { weir::detach(*this); }

  void submitted(const weir::Command& c) override {
    const bool of_memory = std::holds_alternative<weir::Alloc>(c.op) || std::holds_alternative<weir::Free>(c.op);
    ++(of_memory ? memory : commands);
  }
  void ran(weir::CommandId, weir::StreamId stream, weir::Span) override { times += stream == timed_stream; }
  void waited(const weir::HostWait&) override { ++waits; }

  std::atomic<int> commands{0}, memory{0}, times{0}, waits{0};
  static inline std::atomic<weir::StreamId> timed_stream{0};
};

class Watching : public AnyDevice {};
ON_EVERY_DEVICE(Watching);

TEST_P(Watching, an_observer_is_told_what_it_watches_and_nothing_else) {
  Marker marker;  // the first one of a process allocates
  Counts commands(weir::Watch::commands), memory(weir::Watch::memory), host(weir::Watch::host),
      times(weir::Watch::times), nothing(weir::Watch::nothing), all(weir::Watch::everything);
  {
    weir::Stream s(device());
    Counts::timed_stream = s.id();
    const auto x = weir::zeros<int>(s, 100);
    mark(s, marker);
    s.synchronize();
  }
  EXPECT_TRUE(eventually([&] { return all.times == 2 && times.times == 2; }));
  EXPECT_EQ(all.commands, 2);
  EXPECT_EQ(all.memory, 2);
  EXPECT_EQ(all.waits, 1);
  EXPECT_EQ(commands.commands, 2);
  EXPECT_EQ(commands.memory + commands.times + commands.waits, 0);
  EXPECT_EQ(memory.memory, 2);
  EXPECT_EQ(memory.commands + memory.times + memory.waits, 0);
  EXPECT_EQ(host.waits, 1);
  EXPECT_EQ(host.commands + host.memory + host.times, 0);
  EXPECT_EQ(times.commands + times.memory + times.waits, 0);
  EXPECT_EQ(nothing.commands + nothing.memory + nothing.times + nothing.waits, 0);
}

/// Holds the callback of one stream's commands.
class Slow : public weir::Observer {
 public:
  explicit Slow(weir::StreamId stream) : stream_(stream) {}
  void submitted(const weir::Command& c) override {
    if (c.stream != stream_) return;
    inside = true;
    for (int looks = 0; !released; ++looks) weir_test::between_looks(looks);
    inside = false;
  }
  std::atomic<bool> inside{false}, released{false};

 private:
  weir::StreamId stream_;
};

//  a's thread: launch(a) [submitted() ......]       b's: launch(b) b.synchronize(), while a's is still in its callback
TEST_P(Watching, R3_a_call_that_is_held_on_one_stream_holds_no_other_stream) {
  weir::Stream a(device(), {.blocking = false}), b(device(), {.blocking = false});
  Marker marker(2);
  Slow slow(a.id());
  weir::attach(slow);
  std::thread thread([&] { mark(a, marker, 1, 0); });
  EXPECT_TRUE(eventually([&] { return slow.inside.load(); }));
  {
    const Alarm alarm(liveness_limit, [&] { slow.released = true; });
    mark(b, marker, 1, 1);
    { const auto x = weir::empty<int>(b, 10); }
    b.synchronize();
    const weir::Stream c(device());
    EXPECT_TRUE(slow.inside) << "calls on another stream waited for the callback";
  }
  slow.released = true;
  thread.join();
  weir::detach(slow);
  a.synchronize();
  EXPECT_EQ(marker.value(0) + marker.value(1), 2);
}

//  a: [hold ......] [copy to pageable: its call waits ......]     another thread puts a kernel into a meanwhile
TEST_P(Watching, a_call_that_waits_holds_no_other_call_on_its_stream) {
  Counts all(weir::Watch::everything);
  weir::Stream a(device(), {.blocking = false});
  const auto x = weir::zeros<int>(a, 100);
  std::vector<int> values(100, 1);
  Marker marker;
  Gate gate;
  gate.hold(a);
  const int before = all.commands;
  std::thread thread([&] { weir::copy(a, values, x); });
  EXPECT_TRUE(eventually([&] { return all.commands > before; }));
  EXPECT_TRUE(returns_while_held(gate, [&] { mark(a, marker); }));
  gate.open();
  thread.join();
  a.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_EQ(values[99], 0);
}

TEST_P(Watching, a_stream_is_done_after_copies_and_fills_that_waited_as_without_observers) {
  Counts all(weir::Watch::everything);
  weir::Stream a(device(), {.blocking = false});
  Counts::timed_stream = a.id();
  const auto x = weir::zeros<int>(a, 100);
  std::vector<int> values(100, 1);
  auto host = weir::empty<int>(weir::host, 100);
  constexpr int turns = 100;
  for (int i = 0; i < turns; ++i) {
    weir::copy(a, values, x);
    ASSERT_TRUE(a.done()) << "copy " << i;
    weir::fill(a, host, i);
    ASSERT_TRUE(a.done()) << "fill " << i;
  }
  EXPECT_TRUE(eventually([&] { return all.times == 2 * turns + 1; }));
}

TEST_P(Watching, detach_returns_when_no_callback_is_running) {
  weir::Stream a(device());
  Marker marker;
  Slow slow(a.id());
  weir::attach(slow);
  std::thread calls([&] { mark(a, marker); });
  EXPECT_TRUE(eventually([&] { return slow.inside.load(); }));
  std::atomic<bool> detached{false};
  std::thread leaves([&] {
    weir::detach(slow);
    detached = true;
  });
  EXPECT_TRUE(stays(device(), [&] { return !detached; }));
  slow.released = true;
  leaves.join();
  EXPECT_FALSE(slow.inside);
  calls.join();
  a.synchronize();
}

/// Keeps the streams that it was told of, with whether a command came first.
class OpenStreams : public weir::Observer {
 public:
  OpenStreams() { weir::attach(*this); }
  ~OpenStreams() override { weir::detach(*this); }
  void opened(const weir::StreamInfo& info) override {
    const std::lock_guard lock(mutex_);
    open_.push_back(info);
  }
  void closed(weir::StreamId id) override {
    const std::lock_guard lock(mutex_);
    unknown_ += std::erase_if(open_, [&](const weir::StreamInfo& info) { return info.id == id; }) != 1;
  }
  void submitted(const weir::Command& c) override {
    const std::lock_guard lock(mutex_);
    if (c.stream == 0) return;
    unknown_ += std::none_of(open_.begin(), open_.end(), [&](const auto& info) { return info.id == c.stream; });
  }
  std::vector<weir::StreamInfo> open() {
    const std::lock_guard lock(mutex_);
    return open_;
  }
  int unknown() {
    const std::lock_guard lock(mutex_);
    return unknown_;
  }

 private:
  std::mutex mutex_;
  std::vector<weir::StreamInfo> open_;
  int unknown_ = 0;
};

TEST_P(Watching, streams_that_are_open_are_told_at_attach) {
  const weir::Stream s(device(), {.priority = 0, .blocking = false, .name = "before"});
  weir::StreamId gone = 0;
  {
    const weir::Stream other(device());
    gone = other.id();
  }
  OpenStreams streams;
  const std::vector<weir::StreamInfo> open = streams.open();
  const auto find = [&](weir::StreamId id) {
    return std::find_if(open.begin(), open.end(), [id](const weir::StreamInfo& info) { return info.id == id; });
  };
  ASSERT_NE(find(s.id()), open.end());
  EXPECT_EQ(find(s.id())->name, "before");
  EXPECT_FALSE(find(s.id())->blocking);
  const weir::StreamRef legacy = weir::legacy_stream(device());
  ASSERT_NE(find(legacy.id()), open.end());
  EXPECT_TRUE(find(legacy.id())->legacy);
  EXPECT_EQ(find(gone), open.end());
}

TEST_P(Watching, no_command_of_a_stream_is_told_before_the_stream) {
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      Marker marker;
      while (!end) {
        weir::Stream s(device());
        mark(s, marker);
        s.synchronize();
      }
    });
  }
  int unknown = 0;
  for (int round = 0; round < 100; ++round) {
    OpenStreams streams;
    std::this_thread::yield();
    unknown += streams.unknown();
  }
  end = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(unknown, 0);
}

struct Nothing {
  WEIR_KERNEL void operator()(std::size_t) const {}
};

/// Calls what a callback may not, and throws in the end.
class Intruder : public weir::Observer {
 public:
  explicit Intruder(weir::StreamRef stream) : stream_(stream) { weir::attach(*this); }
  ~Intruder() override { weir::detach(*this); }

  void submitted(const weir::Command&) override { intrude(); }
  void ran(weir::CommandId, weir::StreamId, weir::Span) override { intrude(); }
  void waited(const weir::HostWait&) override { intrude(); }
  void accessed(const weir::HostAccess&) override { intrude(); }
  void handed(const weir::HandOffCall&) override { intrude(); }
  void named(weir::BufferId, std::string_view) override { intrude(); }
  void opened(const weir::StreamInfo&) override { intrude(); }
  void closed(weir::StreamId) override { intrude(); }

  std::atomic<int> refused{0}, taken{0};

 private:
  void intrude() {
    attempt([&] { weir::attach(other_); });
    attempt([&] { weir::detach(*this); });
    attempt([&] { weir::launch(stream_, 1, Nothing{}); });
    attempt([&] { stream_.synchronize(); });
    attempt([&] { static_cast<void>(stream_.done()); });
    attempt([&] { weir::capture_begin(stream_); });
    attempt([&] { static_cast<void>(weir::zeros<int>(stream_, 1)); });
    attempt([&] { const weir::Stream another(stream_.device()); });
    throw 7;
  }
  template <class F>
  void attempt(F&& call) {
    try {
      call();
      ++taken;
    } catch (const weir::Error& error) {
      ++(error.errc() == weir::Errc::not_permitted ? refused : taken);
    }
  }

  struct Other : weir::Observer {};
  weir::StreamRef stream_;
  Other other_;
};

TEST_P(Watching, callbacks_may_not_call_and_what_they_throw_is_dropped) {
  Marker marker;
  weir::Stream s(device());
  Intruder intruder(s);
  Counts counts(weir::Watch::commands | weir::Watch::host);
  auto x = weir::zeros<int>(weir::pinned, 10);
  x.set_name("x");
  mark(s, marker);
  s.synchronize();
  { const auto guard = weir::host_read(x); }
  weir::HandOff hand;
  hand.give();
  { const weir::Stream other(device()); }
  EXPECT_EQ(marker.value(), 1);
  EXPECT_EQ(counts.commands, 1) << "who is attached behind it is told all the same";
  EXPECT_EQ(counts.waits, 1);
  EXPECT_EQ(intruder.taken, 0);
  EXPECT_GE(intruder.refused, 8 * 8);
  EXPECT_FALSE(weir::is_capturing(s));
}

}  // namespace
}  // namespace weir_test
