// The failure of a stream that was destroyed before anybody was told: those who wait for its work fail all the same.
#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct Burst {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
};

class FailuresOfGoneStreams : public testing::Test {
 protected:
  void SetUp() override { weir::legacy_stream(device_).synchronize(); }
  void TearDown() override {
    const auto left = error_of([&] { device_.synchronize(); });
    EXPECT_FALSE(left.has_value() && !HasFailure()) << "the test left a failure behind: " << left->what();
  }
  /// A stream fails, records `e` if there is one, and is destroyed when all of it has run.
  void fail_and_go(weir::Event* e, bool blocking, const char* name = "the culprit") {
    const weir::Stream gone(device_, {.blocking = blocking});
    weir::launch(gone, weir::Extent{.size = 1, .name = name}, Burst{});
    if (e != nullptr) gone.record(*e);
    ASSERT_TRUE(eventually([&] { return gone.done(); }));
  }
  testing::AssertionResult reported_once(const char* name = "the culprit") {
    const auto told = fails_with(weir::Errc::kernel_failed, [&] { device_.synchronize(); }, {name});
    if (!told) return told;
    const auto again = error_of([&] { device_.synchronize(); });
    return again ? testing::AssertionFailure() << "again: " << again->what() : testing::AssertionSuccess();
  }
  weir::Device device_ = weir::device("cpu");
};

//  gone: [fails]|e   ~gone
//  b:                 wait(e) [mark: skipped]
TEST_F(FailuresOfGoneStreams, a_stream_that_waits_for_its_event_fails) {
  for (const bool blocking : {false, true}) {
    Marker marker;
    weir::Event e(device_);
    fail_and_go(&e, blocking);
    const weir::Stream b(device_, {.blocking = false});
    b.wait(e);
    mark(b, marker);
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { b.synchronize(); }, {"the culprit"}));
    EXPECT_EQ(marker.value(), 0);
    b.synchronize();
    EXPECT_TRUE(reported_once());
  }
}

//  b:    [hold ......] wait(e) [mark: skipped]
//  gone: [fails]|e  ~gone      reported by the device only after b's wait was enqueued
TEST_F(FailuresOfGoneStreams, a_wait_from_before_the_report_inherits_although_it_is_reached_later) {
  Gate gate;
  Marker marker;
  weir::Event e(device_);
  const weir::Stream b(device_, {.blocking = false});
  fail_and_go(&e, false);
  gate.hold(b);
  b.wait(e);
  mark(b, marker);
  std::optional<weir::Error> told;
  std::thread host([&] { told = error_of([&] { device_.synchronize(); }); });
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  gate.open();
  host.join();
  ASSERT_TRUE(told.has_value());
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { b.synchronize(); }, {"the culprit"}));
  EXPECT_EQ(marker.value(), 0);
}

TEST_F(FailuresOfGoneStreams, a_wait_from_after_the_report_inherits_nothing) {
  Marker marker;
  weir::Event e(device_);
  fail_and_go(&e, false);
  EXPECT_TRUE(reported_once());
  const weir::Stream b(device_, {.blocking = false});
  b.wait(e);
  mark(b, marker);
  e.synchronize();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_F(FailuresOfGoneStreams, their_events_throw_until_the_device_reports) {
  for (const bool blocking : {false, true}) {
    weir::Event e(device_);
    fail_and_go(&e, blocking);
    for (int i = 0; i < 2; ++i)
      EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { e.synchronize(); }, {"the culprit"}));
    EXPECT_TRUE(e.done());
    EXPECT_TRUE(reported_once());
    e.synchronize();
  }
}

//  gone: |before [fails]|e  ~gone      next, in its place: [mark]|after
TEST_F(FailuresOfGoneStreams, events_before_it_and_after_it_carry_nothing) {
  weir::Event before(device_), e(device_), after(device_);
  {
    const weir::Stream gone(device_, {.blocking = false});
    gone.record(before);
    weir::launch(gone, weir::Extent{.size = 1, .name = "the culprit"}, Burst{});
    gone.record(e);
    ASSERT_TRUE(eventually([&] { return gone.done(); }));
  }
  Marker marker(2);
  const weir::Stream next(device_, {.blocking = false}), b(device_, {.blocking = false});
  next.record(after);
  mark(next, marker, 1, 1);
  b.wait(before);
  b.wait(after);
  mark(b, marker);
  before.synchronize();
  after.synchronize();
  next.synchronize();
  b.synchronize();
  EXPECT_EQ(marker.value(0) + marker.value(1), 2);
  EXPECT_TRUE(reported_once());
}

//  gone: [fails]  ~gone      legacy: [mark: skipped]
TEST_F(FailuresOfGoneStreams, the_legacy_stream_fails_by_its_rules_if_it_was_a_blocking_one) {
  Marker marker;
  fail_and_go(nullptr, true);
  const weir::StreamRef legacy = weir::legacy_stream(device_);
  mark(legacy, marker);
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { legacy.synchronize(); }, {"the culprit"}));
  EXPECT_EQ(marker.value(), 0);
  mark(legacy, marker);
  legacy.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(reported_once());
}

TEST_F(FailuresOfGoneStreams, the_legacy_stream_goes_on_if_it_was_a_non_blocking_one) {
  Marker marker;
  fail_and_go(nullptr, false);
  mark(weir::legacy_stream(device_), marker);
  weir::legacy_stream(device_).synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(reported_once());
}

//  gone: [fails]   legacy: [mark: skipped], reported   ~gone   legacy: [mark]
TEST_F(FailuresOfGoneStreams, the_legacy_stream_fails_once_for_each_failure) {
  Marker marker;
  const weir::StreamRef legacy = weir::legacy_stream(device_);
  {
    const weir::Stream gone(device_);
    weir::launch(gone, weir::Extent{.size = 1, .name = "the culprit"}, Burst{});
    ASSERT_TRUE(eventually([&] { return gone.done(); }));
    mark(legacy, marker);
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { legacy.synchronize(); }, {"the culprit"}));
  }
  mark(legacy, marker);
  legacy.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(reported_once());
}

TEST_F(FailuresOfGoneStreams, to_host_throws_instead_of_returning_the_array) {
  weir::Array<float> x = weir::zeros<float>(device_, 4);
  device_.synchronize();
  fail_and_go(nullptr, true);
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { static_cast<void>(x.to_host()); }, {"the culprit"}));
  EXPECT_EQ(x.to_host(), std::vector<float>(4, 0.0f));
  EXPECT_TRUE(reported_once());
}

TEST_F(FailuresOfGoneStreams, many_of_one_queue_are_reported_in_their_order_and_each_event_knows_its_own) {
  constexpr int count = 20;
  std::vector<weir::Event> events;
  for (int i = 0; i < count; ++i) {
    events.emplace_back(device_);
    fail_and_go(&events.back(), false, ("culprit " + std::to_string(i) + ".").c_str());
  }
  for (int i = 0; i < count; ++i) {
    const std::string name = "culprit " + std::to_string(i) + ".";
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { events[i].synchronize(); }, {name.c_str()}));
  }
  for (int i = 0; i < count; ++i) {
    const std::string name = "culprit " + std::to_string(i) + ".";
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { device_.synchronize(); }, {name.c_str()}));
  }
  device_.synchronize();
  for (const weir::Event& e : events) e.synchronize();
}

/// An exception that owns a stream, which ends with it.
struct LeavesAStream : std::runtime_error {
  explicit LeavesAStream(std::shared_ptr<weir::Stream> s)
      : std::runtime_error("the pipe burst"), stream(std::move(s)) {}
  std::shared_ptr<weir::Stream> stream;
};

// A queue remembers the last failures that it reported, for waits from before: exceptions of those that it forgets end in the call
// that reports a later one.
TEST_F(FailuresOfGoneStreams, exceptions_that_a_report_lets_go_of_may_end_streams) {
  constexpr int more_than_a_queue_remembers = 20;
  for (int i = 0; i < more_than_a_queue_remembers; ++i) {
    {
      const weir::Stream gone(device_, {.blocking = false});
      auto owned = std::make_shared<weir::Stream>(device_);
      weir::host_call(gone, [&owned] { throw LeavesAStream(std::move(owned)); });
      ASSERT_TRUE(eventually([&] { return gone.done(); }));
    }
    EXPECT_TRUE(error_of([&] { device_.synchronize(); }).has_value()) << i;
  }
  device_.synchronize();
}

//  Streams fail and go while another thread synchronises the device: each failure is thrown once.
TEST_F(FailuresOfGoneStreams, a_synchronisation_at_the_moment_of_the_end_loses_and_doubles_none) {
  constexpr int count = 200;
  std::atomic<bool> ended{false};
  int told = 0;
  std::thread host([&] {
    while (!ended.load()) told += error_of([&] { device_.synchronize(); }).has_value() ? 1 : 0;
  });
  for (int i = 0; i < count; ++i) {
    const weir::Stream gone(device_);
    weir::launch(gone, 1, Burst{});
  }
  ended = true;
  host.join();
  while (error_of([&] { device_.synchronize(); }).has_value()) ++told;
  EXPECT_EQ(told, count);
}

}  // namespace
}  // namespace weir_test
