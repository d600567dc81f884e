// Observers see every command of a stream in order, when it ran, what the host waited for, and streams come and go.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "support/any_device.hpp"
#include "support/between_looks.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

/// Keeps what it is told.
class Witness : public weir::Observer {
 public:
  struct Seen {
    weir::CommandId id;
    weir::StreamId stream;
    std::size_t kind;  ///< the index in weir::Op
    int line;
    std::size_t uses;
    std::string text;
  };
  struct Ran {
    weir::CommandId id;
    weir::StreamId stream;
    weir::Span span;
  };

  Witness() { weir::attach(*this); }
  ~Witness() override { weir::detach(*this); }

  void submitted(const weir::Command& c) override {
    const std::lock_guard lock(mutex_);
    seen_.push_back({c.id, c.stream, c.op.index(), static_cast<int>(c.where.line()), c.uses.size(), weir::to_text(c)});
  }
  void ran(weir::CommandId id, weir::StreamId stream, weir::Span span) override {
    const std::lock_guard lock(mutex_);
    ran_.push_back({id, stream, span});
  }
  void waited(const weir::HostWait& wait) override {
    const std::lock_guard lock(mutex_);
    waits_.push_back(wait);
  }
  void opened(const weir::StreamInfo& info) override {
    const std::lock_guard lock(mutex_);
    opened_.push_back(info);
  }
  void closed(weir::StreamId id) override {
    const std::lock_guard lock(mutex_);
    closed_.push_back(id);
  }

  std::vector<Seen> seen(weir::StreamRef s) { return of_stream(seen_, s.id()); }
  std::vector<Ran> ran(weir::StreamRef s) { return of_stream(ran_, s.id()); }
  std::vector<weir::HostWait> waits() { return copy_of(waits_); }
  std::vector<weir::StreamInfo> opened() { return copy_of(opened_); }
  std::vector<weir::StreamId> closed() { return copy_of(closed_); }

 private:
  template <class T>
  std::vector<T> copy_of(const std::vector<T>& all) {
    const std::lock_guard lock(mutex_);
    return all;
  }
  template <class T>
  std::vector<T> of_stream(const std::vector<T>& all, weir::StreamId id) {
    std::vector<T> some = copy_of(all);
    some.erase(std::remove_if(some.begin(), some.end(), [id](const T& one) { return one.stream != id; }), some.end());
    return some;
  }

  std::mutex mutex_;
  std::vector<Seen> seen_;
  std::vector<Ran> ran_;
  std::vector<weir::HostWait> waits_;
  std::vector<weir::StreamInfo> opened_;
  std::vector<weir::StreamId> closed_;
};

template <class Op>
constexpr std::size_t kind_of = weir::Op(Op{}).index();

class Observed : public AnyDevice {};
ON_EVERY_DEVICE(Observed);

TEST_P(Observed, commands_are_submitted_in_the_streams_order_with_kind_and_line) {
  Witness witness;
  Marker marker;
  weir::Stream s(device()), other(device());
  auto x = weir::empty<int>(s, 100);
  auto y = weir::empty<int>(s, 100);
  weir::Event e(device());
  const std::size_t before = witness.seen(s).size();
  const int first = __LINE__ + 1;
  weir::fill(s, x, 1);
  weir::copy(s, y, x);
  weir::launch(s, 1, WriteMark{}, marker.word(), 1);
  weir::host_call(s, [] {});
  s.record(e);
  s.wait(other.record());
  s.synchronize();
  std::vector<Witness::Seen> seen = witness.seen(s);
  seen.erase(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(before));
  std::vector<std::size_t> kinds;
  for (const Witness::Seen& one : seen) kinds.push_back(one.kind);
  EXPECT_EQ(kinds, (std::vector<std::size_t>{kind_of<weir::Fill>, kind_of<weir::Copy>, kind_of<weir::Launch>,
                                             kind_of<weir::HostCall>, kind_of<weir::Record>, kind_of<weir::Wait>}));
  ASSERT_EQ(seen.size(), 6u);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].line, first + static_cast<int>(i)) << seen[i].text;
    EXPECT_NE(seen[i].id, 0u);
    if (i > 0) {
      EXPECT_NE(seen[i].id, seen[i - 1].id);
    }
  }
  EXPECT_NE(seen[2].text.find("WriteMark"), std::string::npos) << seen[2].text;
}

TEST_P(Observed, making_and_freeing_an_array_are_commands_too) {
  Witness witness;
  weir::Stream s(device());
  { const auto x = weir::zeros<int>(s, 100); }
  s.synchronize();
  std::vector<std::size_t> kinds;
  for (const Witness::Seen& one : witness.seen(s)) kinds.push_back(one.kind);
  EXPECT_EQ(kinds, (std::vector<std::size_t>{kind_of<weir::Alloc>, kind_of<weir::Fill>, kind_of<weir::Free>}));
}

struct AddObserved {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const int> x, weir::View<int> y) const { y[i] += x[i]; }
};

/// Looks at the regions of launches.
class Regions : public weir::Observer {
 public:
  void submitted(const weir::Command& c) override {
    if (std::holds_alternative<weir::Launch>(c.op)) regions.assign(c.uses.begin(), c.uses.end());
  }
  std::vector<weir::Region> regions;
};

TEST_P(Observed, a_launch_tells_the_memory_that_it_reads_and_writes) {
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 100);
  const auto y = weir::zeros<int>(s, 100);
  Regions observer;
  weir::attach(observer);
  weir::launch(s, 50, AddObserved{}, weir::in(x.slice(10, 60)), weir::inout(y));
  weir::detach(observer);
  ASSERT_EQ(observer.regions.size(), 2u);
  const weir::Region& read = observer.regions[0];
  const weir::Region& written = observer.regions[1];
  EXPECT_EQ(read.access, weir::Access::read);
  EXPECT_EQ(read.begin, x.data() + 10);
  EXPECT_EQ(read.extent_bytes(), 50 * sizeof(int));
  EXPECT_EQ(written.access, weir::Access::read_write);
  EXPECT_EQ(written.begin, y.data());
  EXPECT_EQ(written.extent_bytes(), 100 * sizeof(int));
  EXPECT_NE(read.buffer, 0u);
  EXPECT_NE(read.buffer, written.buffer);
  s.synchronize();
}

TEST_P(Observed, every_command_runs_once_after_its_predecessors) {
  Witness witness;
  Marker marker;
  weir::Stream s(device());
  for (int i = 0; i < 200; ++i) {
    mark(s, marker, i);
    if (i % 10 == 0) weir::host_call(s, [] {});
  }
  s.synchronize();
  const std::vector<Witness::Seen> seen = witness.seen(s);
  ASSERT_TRUE(eventually([&] { return witness.ran(s).size() == seen.size(); }));
  const std::vector<Witness::Ran> ran = witness.ran(s);
  for (std::size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(ran[i].id, seen[i].id) << "command " << i << ": " << seen[i].text;
    EXPECT_LE(ran[i].span.begin, ran[i].span.end);
    if (i > 0) {
      EXPECT_LE(ran[i - 1].span.end, ran[i].span.begin);
    }
  }
}

//  held: [hold ......]|e
//  s:     wait(e) [mark] wait(e) [mark] ...      observed
TEST_P(Observed, R213_hundreds_of_commands_behind_a_held_stream_return) {
  Witness witness;
  Gate gate;
  Marker marker;
  weir::Stream held(device()), s(device());
  gate.hold(held);
  EXPECT_TRUE(returns_while_held(gate, [&] {
    const weir::Event e = held.record();
    for (int i = 0; i < 150; ++i) {
      s.wait(e);
      mark(s, marker, i);
    }
  }));
  gate.open();
  s.synchronize();
  const std::vector<Witness::Seen> seen = witness.seen(s);
  ASSERT_TRUE(eventually([&] { return witness.ran(s).size() == seen.size(); }));
  const std::vector<Witness::Ran> ran = witness.ran(s);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(ran[i].id, seen[i].id);
}

//  a: [hold ......]     b: [mark]       both observed: b's command runs, and is told to have run, while a is held
TEST_P(Observed, streams_stay_independent) {
  Witness witness;
  Gate gate;
  Marker marker;
  weir::Stream a(device(), {.blocking = false}), b(device(), {.blocking = false});
  gate.hold(a);
  mark(b, marker);
  EXPECT_TRUE(returns_while_held(gate, [&] { b.synchronize(); }));
  EXPECT_TRUE(eventually([&] { return witness.ran(b).size() == 1; }));
  EXPECT_TRUE(witness.ran(a).empty());
  gate.open();
  a.synchronize();
}

//  s: [hold 2 ms or more]
TEST_P(Observed, a_span_covers_the_time_that_a_command_ran) {
  Witness witness;
  weir::Stream s(device());
  {
    Gate gate;
    gate.hold(s);
    ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
    const auto begin = std::chrono::steady_clock::now();
    for (int looks = 0; std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(2); ++looks)
      weir_test::between_looks(looks);
  }
  s.synchronize();
  ASSERT_TRUE(eventually([&] { return witness.ran(s).size() == 1; }));
  const weir::Span span = witness.ran(s)[0].span;
  EXPECT_GE(span.end - span.begin, std::chrono::microseconds(1900));
}

TEST_P(Observed, host_waits_are_told_with_what_was_waited_for) {
  using Kind = weir::HostWait::Kind;
  weir::Stream s(device());
  const weir::Event e = s.record();
  Witness witness;
  s.synchronize();
  e.synchronize();
  device().synchronize();
  weir::synchronize();
  const std::vector<weir::HostWait> waits = witness.waits();
  ASSERT_EQ(waits.size(), 4u);
  EXPECT_EQ(waits[0].kind, Kind::stream);
  EXPECT_EQ(waits[0].stream, s.id());
  EXPECT_EQ(waits[1].kind, Kind::event);
  EXPECT_EQ(waits[1].event_id, e.id());
  EXPECT_EQ(waits[2].kind, Kind::device);
  EXPECT_EQ(waits[2].device, device().index());
  EXPECT_EQ(waits[3].kind, Kind::all);
  for (const weir::HostWait& wait : waits)
    EXPECT_NE(std::string(wait.where.file_name()).find("streams_observed_test"), std::string::npos);
}

TEST_P(Observed, streams_are_told_when_they_open_and_close) {
  Witness witness;
  weir::StreamId id = 0;
  {
    const weir::Stream s(device(), {.priority = -1, .blocking = false, .name = "upload"});
    id = s.id();
    const auto all = witness.opened();
    const auto found =
        std::find_if(all.begin(), all.end(), [id](const weir::StreamInfo& info) { return info.id == id; });
    ASSERT_NE(found, all.end());
    EXPECT_EQ(found->name, "upload");
    EXPECT_EQ(found->device, device());
    EXPECT_EQ(found->priority, s.priority());
    EXPECT_FALSE(found->blocking);
    EXPECT_FALSE(found->legacy);
  }
  const auto closed = witness.closed();
  EXPECT_EQ(std::count(closed.begin(), closed.end(), id), 1);
}

/// Destroys streams while it is told of others.
class Closer final : public weir::Observer {
 public:
  void opened(const weir::StreamInfo& info) override {
    EXPECT_FALSE(telling_);
    if (info.name != "opened") return;
    telling_ = true;
    in_opened.reset();
    telling_ = false;
  }
  void closed(weir::StreamId id) override {
    EXPECT_FALSE(telling_);
    closed_.push_back(id);
    telling_ = true;
    in_closed.reset();
    telling_ = false;
  }

  std::optional<weir::Stream> in_opened;
  std::optional<weir::Stream> in_closed;
  std::vector<weir::StreamId> closed_;

 private:
  bool telling_ = false;
};

TEST_P(Observed, streams_that_a_callback_destroys_are_told_behind_it) {
  Closer closer;
  closer.in_opened.emplace(device());
  closer.in_closed.emplace(device());
  const weir::StreamId first = closer.in_opened->id(), second = closer.in_closed->id();
  weir::attach(closer, weir::Watch::commands);
  { const weir::Stream opened(device(), {.name = "opened"}); }
  weir::detach(closer);
  ASSERT_EQ(closer.closed_.size(), 3u);
  EXPECT_EQ(closer.closed_[0], first);
  EXPECT_EQ(closer.closed_[1], second);
}

TEST_P(Observed, nothing_is_told_after_detach_and_all_observers_are_told_the_same) {
  Marker marker;
  weir::Stream s(device());
  Regions left;
  weir::attach(left);
  weir::detach(left);
  Witness first;
  {
    Witness second;
    mark(s, marker);
    s.synchronize();
    EXPECT_EQ(first.seen(s).size(), 1u);
    EXPECT_EQ(second.seen(s).size(), 1u);
    EXPECT_EQ(first.seen(s)[0].id, second.seen(s)[0].id);
  }
  mark(s, marker);
  s.synchronize();
  EXPECT_EQ(first.seen(s).size(), 2u);
  EXPECT_TRUE(left.regions.empty());
}

TEST_P(Observed, observers_come_and_go_while_threads_launch) {
  Marker count;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      weir::Stream s(device());
      for (int k = 0; k < 2000; ++k) count_up(s, count);
      s.synchronize();
    });
  }
  for (int round = 0; round < 100; ++round) {
    Witness witness;
    std::this_thread::yield();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count.value(), 6000);
}

/// Orders no threads: what it shares is relaxed.
class FreesCounted : public weir::Observer {
 public:
  FreesCounted() { weir::attach(*this); }
  ~FreesCounted() override { weir::detach(*this); }
  void submitted(const weir::Command& c) override {
    if (std::holds_alternative<weir::Free>(c.op)) frees.fetch_add(1, std::memory_order_relaxed);
  }
  std::atomic<int> frees{0};
};

//  one thread drops an array whose stream another one destroys, and opens the next, which has its place
TEST_P(Observed, memory_is_told_of_while_its_stream_makes_room_for_the_next) {
  constexpr int rounds = 200;
  FreesCounted observer;
  for (int round = 0; round < rounds; ++round) {
    std::optional<weir::Stream> s(std::in_place, device());
    weir::Array<int> x = weir::empty<int>(*s, 100);
    std::thread dropper([&x] { x = weir::Array<int>(); });
    s.reset();
    const weir::Stream next(device());
    dropper.join();
  }
  EXPECT_EQ(observer.frees, rounds);
}

struct Burst {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
};

//  s: [fails][mark: skipped]
TEST_P(Observed, a_skipped_command_ran_for_no_time) {
  if (!on("cpu")) GTEST_SKIP() << "device code cannot throw";
  Witness witness;
  Marker marker;
  weir::Stream s(device());
  weir::launch(s, 1, weir::host_only(Burst{}));
  mark(s, marker);
  EXPECT_THROW(s.synchronize(), weir::Error);
  ASSERT_TRUE(eventually([&] { return witness.ran(s).size() == 2; }));
  const auto ran = witness.ran(s);
  EXPECT_EQ(ran[1].id, witness.seen(s)[1].id);
  EXPECT_EQ(ran[1].span.begin, ran[1].span.end);
}

}  // namespace
}  // namespace weir_test
