// Accesses of the host, hand-offs, ends of host memory; and policies, which may refuse commands or let them wait.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <variant>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class HostRecorder : public weir::Observer {
 public:
  HostRecorder() { weir::attach(*this, weir::Watch::host | weir::Watch::memory | weir::Watch::commands); }
  ~HostRecorder() override { weir::detach(*this); }

  void submitted(const weir::Command& c) override {
    const std::lock_guard lock(mutex);
    if (std::holds_alternative<weir::HostCall>(c.op)) calls.push_back(c.id);
  }
  void accessed(const weir::HostAccess& access) override {
    const std::lock_guard lock(mutex);
    accesses.push_back(access);
  }
  void handed(const weir::HandOffCall& call) override {
    const std::lock_guard lock(mutex);
    hands.push_back(call);
  }
  void host_gone(const void* data, std::size_t bytes, weir::SourceLocation, std::uint32_t) override {
    const std::lock_guard lock(mutex);
    gone.emplace_back(data, bytes);
  }
  void pinned(const void* data, std::size_t bytes, weir::SourceLocation where, std::uint32_t thread) override {
    const std::lock_guard lock(mutex);
    pins.push_back({true, data, bytes, where.line(), thread});
  }
  void unpinned(const void* data, std::size_t bytes, weir::SourceLocation where, std::uint32_t thread) override {
    const std::lock_guard lock(mutex);
    pins.push_back({false, data, bytes, where.line(), thread});
  }

  std::mutex mutex;
  std::vector<weir::CommandId> calls;
  std::vector<weir::HostAccess> accesses;
  std::vector<weir::HandOffCall> hands;
  std::vector<std::pair<const void*, std::size_t>> gone;
  struct Pin {
    bool begins;
    const void* data;
    std::size_t bytes;
    std::uint32_t line;
    std::uint32_t thread;
    bool operator==(const Pin&) const = default;
  };
  std::vector<Pin> pins;
};

class ObservedHost : public AnyDevice {};
ON_EVERY_DEVICE(ObservedHost);

TEST_P(ObservedHost, guards_tell_what_they_cover_as_long_as_they_live) {
  const auto p = weir::ones<int>(weir::pinned, 10);
  std::vector<float> range(5, 2.0f);
  HostRecorder recorder;
  {
    const std::uint32_t line = __LINE__ + 1;
    const auto read = weir::host_read(p.slice(2, 6));
    static_assert(std::is_same_v<decltype(read.data()), const int*>);
    EXPECT_EQ(read.size(), 4u);
    EXPECT_EQ(read[3], 1);
    EXPECT_EQ(read.end() - read.begin(), 4);
    ASSERT_EQ(recorder.accesses.size(), 1u);
    EXPECT_TRUE(recorder.accesses[0].begins);
    EXPECT_EQ(recorder.accesses[0].region.begin, p.data() + 2);
    EXPECT_EQ(recorder.accesses[0].region.extent_bytes(), 16u);
    EXPECT_EQ(recorder.accesses[0].region.buffer, p.storage()->buffer);
    EXPECT_EQ(recorder.accesses[0].region.access, weir::Access::read);
    EXPECT_EQ(recorder.accesses[0].where.line(), line);
  }
  ASSERT_EQ(recorder.accesses.size(), 2u);
  EXPECT_FALSE(recorder.accesses[1].begins);
  EXPECT_EQ(recorder.accesses[1].guard, recorder.accesses[0].guard);
  auto write = weir::host_write(range);
  for (float& value : write) value = 3.0f;
  EXPECT_EQ(range[4], 3.0f);
  EXPECT_EQ(recorder.accesses[2].region.access, weir::Access::write);
  EXPECT_EQ(recorder.accesses[2].region.begin, range.data());
  EXPECT_EQ(recorder.accesses[2].region.buffer, 0u);
  auto moved = std::move(write);
  write = weir::host_write(range);
  EXPECT_EQ(recorder.accesses.size(), 4u);
  moved.close();
  moved.close();
  EXPECT_EQ(recorder.accesses.size(), 5u);
  EXPECT_EQ(recorder.accesses[4].guard, recorder.accesses[2].guard);
  const std::vector<float>& constant = range;
  EXPECT_EQ(weir::host_read(constant)[0], 3.0f);
  weir::host_update(p)[0] = 7;
  EXPECT_EQ(recorder.accesses.back().region.access, weir::Access::read_write);
  EXPECT_EQ(p[0], 7);
}

TEST_P(ObservedHost, guards_refuse_memory_of_devices_and_need_no_observer) {
  weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 10);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_memory, [&] { static_cast<void>(weir::host_read(x)); }));
  auto h = weir::zeros<int>(weir::host, {3, 4});
  const auto column = weir::host_read(h.slice({{0, 3}, {1, 2}}));
  EXPECT_EQ(column.view()(2, 0), 0);
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { static_cast<void>(column.begin()); }));
  auto kept = weir::host_write(h);
  h = {};
  kept[11] = 1;  // the guard keeps the array
  s.synchronize();
}

//  thread: give ---> take: this one     s: [host function: give]
TEST_P(ObservedHost, hand_offs_are_told_also_from_host_functions) {
  weir::Stream s(device());
  weir::HandOff a, b;
  HostRecorder recorder;
  std::thread([&] { a.give(); }).join();
  a.take();
  weir::host_call(s, [&] { b.give(); });
  s.synchronize();
  ASSERT_EQ(recorder.hands.size(), 3u);
  EXPECT_NE(a.id(), b.id());
  EXPECT_EQ(recorder.hands[0].hand_off, a.id());
  EXPECT_TRUE(recorder.hands[0].gives);
  EXPECT_FALSE(recorder.hands[1].gives);
  EXPECT_NE(recorder.hands[0].thread, recorder.hands[1].thread);
  EXPECT_EQ(recorder.hands[2].hand_off, b.id());
  EXPECT_EQ(recorder.hands[2].thread, 0u);
  ASSERT_EQ(recorder.calls.size(), 1u);
  EXPECT_EQ(recorder.hands[2].command, recorder.calls[0]);
}

// A host function says what it touches by its arguments.
TEST_P(ObservedHost, guards_in_host_functions_are_not_told) {
  weir::Stream s(device());
  std::vector<int> values(4);
  HostRecorder recorder;
  weir::host_call(s, [&] { weir::host_write(values)[2] = 5; });
  s.synchronize();
  EXPECT_EQ(values[2], 5);
  EXPECT_TRUE(recorder.accesses.empty());
}

TEST_P(ObservedHost, ends_of_host_memory_are_told) {
  std::vector<char> memory(100);
  weir::host_gone(memory.data(), memory.size());
  HostRecorder recorder;
  weir::host_gone(memory.data(), memory.size());
  ASSERT_EQ(recorder.gone.size(), 1u);
  EXPECT_EQ(recorder.gone[0].first, memory.data());
  EXPECT_EQ(recorder.gone[0].second, 100u);
}

TEST_P(ObservedHost, pins_are_told_also_those_that_are_older) {
  std::vector<char> memory(4096), other(4096), gone(4096);
  weir::pin(gone.data(), gone.size());
  weir::unpin(gone.data());
  const std::uint32_t line = __LINE__ + 1;
  weir::pin(memory.data(), memory.size());
  HostRecorder recorder;
  EXPECT_TRUE(fails_with(weir::Errc::already_pinned, [&] { weir::pin(memory.data() + 8, 8); }));
  { const weir::ScopedPin scoped(other); }
  EXPECT_TRUE(fails_with(weir::Errc::not_pinned, [&] { weir::unpin(other.data()); }));
  weir::unpin(memory.data());
  ASSERT_EQ(recorder.pins.size(), 4u);
  const std::uint32_t thread = recorder.pins[0].thread;
  EXPECT_NE(thread, 0u);
  EXPECT_EQ(recorder.pins[0], (HostRecorder::Pin{true, memory.data(), 4096, line, thread}));
  EXPECT_EQ(recorder.pins[1], (HostRecorder::Pin{true, other.data(), 4096, line + 3, thread}));
  EXPECT_EQ(recorder.pins[2], (HostRecorder::Pin{false, other.data(), 4096, line + 3, thread}));
  EXPECT_EQ(recorder.pins[3], (HostRecorder::Pin{false, memory.data(), 4096, line + 5, thread}));
}

/// Refuses launches of this name, and lets others wait.
class Policy : public weir::OrderPolicy {
 public:
  Policy() { weir::attach(*this); }
  ~Policy() override { weir::detach(*this); }

  void before(const weir::Command& c, Waits& waits) override {
    ++asked;
    const auto* launch = std::get_if<weir::Launch>(&c.op);
    if (launch == nullptr || launch->name == nullptr) {
      if (refuse_frees && std::holds_alternative<weir::Free>(c.op)) refuse(c);
      return;
    }
    graph = c.graph;
    node = c.node;
    behind.assign(c.behind.begin(), c.behind.end());
    if (launch->name == std::string_view("bad")) refuse(c);
    if (first.id() != 0) waits.wait(first);
    if (event.id() != 0) waits.wait(event);
  }
  void before(const weir::HostAccess& access) override {
    if (access.region.access == weir::Access::write) {
      throw weir::Error(weir::Errc::hazard, "weir::host_write", "memory", "it is in use", access.where);
    }
  }

  void before_host_gone(const void* data, std::size_t bytes, weir::SourceLocation where, std::uint32_t) override {
    gone = {data, bytes};
    throw weir::Error(weir::Errc::hazard, "weir::host_gone", "memory", "it is in use", where);
  }

  std::atomic<int> asked{0};
  bool refuse_frees = false;
  std::pair<const void*, std::size_t> gone;
  std::vector<weir::StreamId> behind;  ///< of the last launch of a name
  weir::StreamRef first;
  weir::EventRef event;
  std::uint64_t graph = 0;
  std::uint32_t node = 0;

 private:
  [[noreturn]] void refuse(const weir::Command& c) {
    throw weir::Error(weir::Errc::hazard, "weir::launch", "stream", "no order", c.where);
  }
};

class Refusals : public weir::Observer {
 public:
  Refusals() { weir::attach(*this); }
  ~Refusals() override { weir::detach(*this); }
  void submitted(const weir::Command& c) override { kinds.push_back(c.op.index()); }
  void refused(const weir::Refusal& refusal) override {
    ++refusals;
    told += refusal.told;
  }
  std::vector<std::size_t> kinds;
  int refusals = 0, told = 0;
};

void count_as(weir::StreamRef s, const char* name, const Marker& marker) {
  weir::launch(s, weir::Extent{.size = 1, .name = name}, WriteMark{}, marker.word(), 1);
}

TEST_P(ObservedHost, a_policy_refuses_a_command_and_nothing_has_changed) {
  weir::Stream s(device());
  Marker bad, good;
  auto x = weir::zeros<int>(s, 10);
  {
    Refusals observer;
    Policy policy;
    EXPECT_TRUE(fails_with(weir::Errc::hazard, [&] { count_as(s, "bad", bad); }));
    EXPECT_TRUE(observer.kinds.empty());
    EXPECT_EQ(observer.refusals, 1);
    EXPECT_EQ(observer.told, 0);
    count_as(s, "good", good);
    EXPECT_EQ(observer.kinds.size(), 1u);
    policy.refuse_frees = true;
    EXPECT_TRUE(fails_with(weir::Errc::hazard, [&] { x.free(); }));
    policy.refuse_frees = false;
    weir::fill(s, x, 1);
    x.free();
    void* raw = weir::default_pool(device()).allocate(s, 100);
    policy.refuse_frees = true;
    EXPECT_TRUE(fails_with(weir::Errc::hazard, [&] { weir::default_pool(device()).free(s, raw); }));
    policy.refuse_frees = false;
    weir::default_pool(device()).free(s, raw);
    std::vector<int> host(3);
    EXPECT_TRUE(fails_with(weir::Errc::hazard, [&] { static_cast<void>(weir::host_write(host)); }));
    EXPECT_EQ(weir::host_read(host)[0], 0);
  }
  s.synchronize();
  EXPECT_EQ(bad.value(), 0);
  EXPECT_EQ(good.value(), 1);
  count_as(s, "bad", bad);  // it has left
  s.synchronize();
  EXPECT_EQ(bad.value(), 1);
}

TEST_P(ObservedHost, a_policy_may_say_that_host_memory_is_in_use) {
  std::vector<char> memory(100);
  HostRecorder recorder;
  {
    Policy policy;
    EXPECT_TRUE(fails_with(weir::Errc::hazard, [&] { weir::host_gone(memory.data(), memory.size()); }));
    EXPECT_EQ(policy.gone.first, memory.data());
    EXPECT_EQ(policy.gone.second, 100u);
  }
  EXPECT_TRUE(recorder.gone.empty()) << "nothing has changed";
}

//  a: blocking [mark]     legacy: [named]     a: [named]     a: [named]
TEST_P(ObservedHost, a_policy_is_told_what_a_command_comes_behind_by_the_default_streams_rules) {
  weir::Stream a(device());
  const weir::StreamRef legacy = weir::legacy_stream(device());
  Marker marker;
  Policy policy;
  const auto behind = [&](weir::StreamRef s) {
    count_as(s, "named", marker);
    return policy.behind;
  };
  mark(legacy, marker);
  mark(a, marker);
  const std::vector<weir::StreamId> of_legacy = behind(legacy);
  EXPECT_NE(std::find(of_legacy.begin(), of_legacy.end(), a.id()), of_legacy.end());
  EXPECT_EQ(behind(a), std::vector<weir::StreamId>{legacy.id()});
  EXPECT_TRUE(behind(a).empty()) << "it is behind that already";
  device().synchronize();
}

TEST_P(ObservedHost, a_policy_refuses_inside_a_capture_and_the_capture_goes_on) {
  weir::Stream s(device());
  Marker bad, good;
  weir::Graph graph;
  {
    Policy policy;
    graph = weir::capture(s, [&] {
      count_as(s, "first", good);
      EXPECT_NE(policy.graph, 0u);
      EXPECT_EQ(policy.node, 0u);
      EXPECT_TRUE(fails_with(weir::Errc::hazard, [&] { count_as(s, "bad", bad); }));
      count_as(s, "second", good);
      EXPECT_EQ(policy.node, 1u);
    });
  }
  EXPECT_EQ(graph.size(), 2u);
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(bad.value(), 0);
  EXPECT_EQ(good.value(), 1);
}

//  held: [hold ......]     other: [hold ......]|e     s: [wait(held)] [wait(e)] [mark]: both put there by the policy
TEST_P(ObservedHost, a_policy_puts_waits_before_a_command) {
  weir::Stream held(device(), {.blocking = false}), other(device(), {.blocking = false}),
      s(device(), {.blocking = false});
  Marker marker;
  Gate first, second;
  first.hold(held);
  second.hold(other);
  const weir::Event e = other.record();
  Refusals observer;
  {
    Policy policy;
    policy.first = held;
    policy.event = e;
    count_as(s, "waits", marker);
    EXPECT_EQ(policy.asked, 1) << "about the waits nobody asks";
  }
  const std::size_t launch = weir::Op(weir::Launch{}).index(), record = weir::Op(weir::Record{}).index(),
                    wait = weir::Op(weir::Wait{}).index();
  EXPECT_EQ(observer.kinds, (std::vector<std::size_t>{record, wait, wait, launch}));
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  first.open();
  held.synchronize();
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  second.open();
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

}  // namespace
}  // namespace weir_test
