// Queues with work find somebody to run them, whatever fails or is observed, and done() does not wait for formalities.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cpu/cpu_backend.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "support/between_looks.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"
#include "support/thread_state.hpp"

namespace weir_test {
namespace {

weir::Device cpu() { return weir::device("cpu"); }

struct ThrowsWhenCopied {
  ThrowsWhenCopied() = default;
  ThrowsWhenCopied(ThrowsWhenCopied&&) noexcept {}
  ThrowsWhenCopied(const ThrowsWhenCopied&) { throw std::runtime_error("no copy"); }
  void operator()(std::size_t) const {}
};

//  legacy: [hold ......]
//  s:                    [a wait for it]   then the closure throws
TEST(Scheduling, a_wait_for_the_default_stream_ends_though_the_closure_behind_it_could_not_be_copied) {
  for (int round = 0; round < 20; ++round) {
    Gate gate;
    weir::Stream s(cpu());
    gate.hold(weir::legacy_stream(cpu()));
    EXPECT_THROW(weir::launch(s, 1, ThrowsWhenCopied{}), std::runtime_error);
    gate.open();
    EXPECT_TRUE(eventually([&] { return s.done(); }));
    weir::legacy_stream(cpu()).synchronize();
    Marker marker;
    mark(s, marker);
    s.synchronize();
    EXPECT_EQ(marker.value(), 1);
  }
}

struct Quiet : weir::Observer {};

class Observed : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) weir::attach(observer_);
  }
  void TearDown() override {
    if (GetParam()) weir::detach(observer_);
  }

 private:
  Quiet observer_;
};
INSTANTIATE_TEST_SUITE_P(With, Observed, testing::Bool(),
                         [](const auto& param) { return param.param ? "an_observer" : "nobody_watching"; });

/// A blocking stream's work, a wait of the legacy stream, another blocking stream's work, which waits for the first.
template <class Wait>
void expect_barrier(Wait&& wait) {
  Gate gate;
  Marker marker;
  weir::Stream a(cpu()), b(cpu());
  gate.hold(a);
  wait(weir::legacy_stream(cpu()));
  mark(b, marker);
  EXPECT_TRUE(stays(cpu(), [&] { return marker.value() == 0; }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  a: [hold ......]
//  legacy:          wait(reached)
//  b:                             [mark]
TEST_P(Observed, a_wait_of_the_legacy_stream_for_a_reached_event_separates_blocking_streams) {
  weir::Stream n(cpu(), {.blocking = false});
  const weir::Event reached = n.record();
  n.synchronize();
  expect_barrier([&](weir::StreamRef legacy) { legacy.wait(reached); });
}

TEST_P(Observed, a_wait_of_the_legacy_stream_for_an_event_without_a_record_separates_blocking_streams) {
  const weir::Event never(cpu());
  expect_barrier([&](weir::StreamRef legacy) { legacy.wait(never); });
}

TEST_P(Observed, a_wait_of_the_legacy_stream_for_itself_separates_blocking_streams) {
  expect_barrier([&](weir::StreamRef legacy) { legacy.wait(legacy); });
}

//  legacy: [hold ......]
//  s:                    wait(reached)       pending, as every command of s
TEST_P(Observed, a_wait_of_a_blocking_stream_for_a_reached_event_comes_after_earlier_legacy_work) {
  weir::Stream n(cpu(), {.blocking = false}), s(cpu());
  const weir::Event reached = n.record();
  n.synchronize();
  Gate gate;
  gate.hold(weir::legacy_stream(cpu()));
  s.wait(reached);
  EXPECT_FALSE(s.done());
  gate.open();
  EXPECT_TRUE(eventually([&] { return s.done(); }));
}

/// Without any worker: what runs there, a host thread runs.
weir::cpu::CpuDevice& device_without_workers() {
  static auto& device = *new weir::cpu::CpuDevice(weir::cpu::backend(), 0, 1, std::size_t{1} << 30);
  device.pool().stop();
  return device;
}

weir::cpu::CpuQueue& open_queue(bool blocking) {
  weir::QueueOptions options;
  options.blocking = blocking;
  return device_without_workers().open_queue(options);
}

void submit_work(weir::cpu::CpuQueue& queue) {
  const auto nothing = [] {};
  weir::Command command;
  command.op = weir::HostCall{new weir::detail::OwnedFunction<decltype(nothing)>(nothing)};
  queue.submit(command);
}

//  a: [work]             run by the host thread that waits for it
//  b: wait(a)            done then, though no worker looked at b
TEST(Formalities, a_stream_whose_waits_are_over_is_done_before_any_worker_looked_at_it) {
  weir::cpu::CpuQueue& a = open_queue(false);
  weir::cpu::CpuQueue& b = open_queue(false);
  submit_work(a);
  for (int i = 0; i < 3; ++i) b.append_wait(a, a.tail(), weir::cpu::Origin{});
  EXPECT_FALSE(b.done());
  a.wait_until(a.tail());
  EXPECT_TRUE(b.done());
  a.retire();
  b.retire();
}

TEST(Formalities, work_behind_a_wait_that_is_over_is_not_run_by_asking) {
  weir::cpu::CpuQueue& a = open_queue(false);
  weir::cpu::CpuQueue& b = open_queue(false);
  submit_work(a);
  b.append_wait(a, a.tail(), weir::cpu::Origin{});
  submit_work(b);
  const std::uint64_t last = b.tail();
  a.wait_until(a.tail());
  EXPECT_FALSE(b.done());
  b.append_empty(weir::cpu::Origin{});
  EXPECT_FALSE(b.done());
  EXPECT_FALSE(b.reached(last));
  b.wait_until(last);
  EXPECT_TRUE(b.done());
  a.retire();
  b.retire();
}

/// Does something in the thread that completes a command, before that goes on.
template <class F>
class Told final : public weir::detail::Signal {
 public:
  explicit Told(F f) : f_(f) {}
  void give(std::shared_ptr<const weir::Error>, weir::StreamId) noexcept override { f_(); }

 private:
  F f_;
};

//  b: [work] [an empty record]      its worker has done the work, and is kept from the record until the one who asks sleeps for it
TEST(Formalities, that_a_worker_is_kept_from_are_waited_for_a_moment) {
  const pid_t asker = gettid();
  bool yes = false;
  // On a busy machine the worker may come too late, but not each time.
  for (int round = 0; round < 500 && !yes; ++round) {
    weir::cpu::CpuQueue& b = open_queue(false);
    submit_work(b);
    std::atomic<bool> kept{false}, answered{false};
    const auto keep = [&] {
      kept = true;
      for (int looks = 0; !answered && weir_test::state_of_thread(asker) != 'S'; ++looks)
        weir_test::between_looks(looks);
    };
    std::unique_ptr<weir::detail::Signal> signal = std::make_unique<Told<decltype(keep)>>(keep);
    b.signal_behind(b.tail(), signal);
    b.append_empty(weir::cpu::Origin{});
    std::thread worker([&b] { b.wait_until(b.tail()); });
    for (int looks = 0; !kept; ++looks) weir_test::between_looks(looks);
    yes = b.done();
    answered = true;
    worker.join();
    b.retire();
  }
  EXPECT_TRUE(yes);
}

TEST(Formalities, the_legacy_stream_is_done_once_what_it_stands_for_is) {
  weir::cpu::CpuQueue& legacy = device_without_workers().legacy();
  weir::cpu::CpuQueue& b = open_queue(true);
  submit_work(b);
  legacy.mark();
  EXPECT_FALSE(legacy.done());
  b.wait_until(b.tail());
  EXPECT_TRUE(legacy.done());
  submit_work(legacy);
  b.mark();
  EXPECT_FALSE(legacy.done());
  legacy.wait_until(legacy.tail());
  EXPECT_TRUE(legacy.done());
  EXPECT_TRUE(b.done());
  b.retire();
}

//  legacy: [work]
//  b:             [a wait for it]  [no memory]
TEST(Scheduling, a_stream_is_ready_when_there_is_no_memory_for_the_command_behind_its_wait) {
  if (under_thread_sanitizer || under_address_sanitizer)
    GTEST_SKIP() << "sanitizers end the program where there is no memory";
  weir::cpu::CpuQueue& legacy = device_without_workers().legacy();
  weir::cpu::CpuQueue& b = open_queue(true);
  submit_work(legacy);
  weir::Fill fill{};
  fill.layout.element_bytes = std::size_t{1} << 60;
  weir::Command command;
  command.op = fill;
  const int ready = device_without_workers().pool().ready();
  EXPECT_THROW(b.submit(command), weir::Error);
  EXPECT_EQ(device_without_workers().pool().ready(), ready + 1);
  legacy.wait_until(legacy.tail());
  EXPECT_TRUE(b.done());
  b.retire();
}

TEST(TimedEvents, the_time_between_events_may_be_asked_while_another_thread_records_them) {
  weir::Stream s(cpu(), {.blocking = false});
  const weir::TimedEvent start(cpu()), end(cpu());
  s.record(start);
  s.record(end);
  std::atomic<bool> over{false};
  std::thread recorder([&] {
    for (int i = 0; i < 3000; ++i) {
      s.record(start);
      s.record(end);
    }
    over = true;
  });
  int answers = 0;
  while (!over) {
    try {
      static_cast<void>(weir::elapsed(start, end));
      ++answers;
    } catch (const weir::Error& error) {
      EXPECT_EQ(error.code(), weir::Errc::not_ready);
    }
  }
  recorder.join();
  s.synchronize();
  static_cast<void>(weir::elapsed(start, end));
}

}  // namespace
}  // namespace weir_test
