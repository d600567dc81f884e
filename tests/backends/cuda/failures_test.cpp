// A report lets a stream run again: it is made by who has waited for the failed work, and for what was to be skipped behind it.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

weir::Device device_of_reports() { return weir::devices("cuda").at(0); }

/// A host function that throws, and behind it a kernel that is held by a stream of its own, and must be skipped.
struct FailedAndHeld {
  explicit FailedAndHeld(int* word) {
    gate.hold(holder);
    weir::host_call(s, [] { throw std::runtime_error("behind it nothing runs"); });
    failed = s.record();
    s.wait(holder);
    weir::launch(s, 1, WriteMark{}, word, 1);
  }
  bool has_failed() const {
    return eventually([&] { return failed->done(); });
  }

  weir::Stream s{device_of_reports(), {.blocking = false}};
  weir::Stream holder{device_of_reports(), {.blocking = false}};
  std::optional<weir::Event> failed;
  Gate gate;
};

TEST(Reports, a_device_reports_no_failure_of_work_that_it_did_not_wait_for) {
  Marker marker;
  const weir::Stream before(device_of_reports(), {.blocking = false});
  Gate first;
  first.hold(before);
  const std::uint64_t waits = fake_cuda::calls("cudaEventSynchronize");
  std::optional<weir::Error> told;
  std::thread waiter([&] { told = error_of([] { device_of_reports().synchronize(); }); });
  ASSERT_TRUE(eventually([&] { return fake_cuda::calls("cudaEventSynchronize") > waits; }));
  FailedAndHeld later(marker.word());
  EXPECT_TRUE(later.has_failed());
  first.open();
  waiter.join();
  EXPECT_FALSE(told.has_value());
  later.gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { later.s.synchronize(); }));
  EXPECT_EQ(marker.value(), 0);
}

/// An exception that waits for a stream when it ends.
struct WaitsAtItsEnd : std::runtime_error {
  explicit WaitsAtItsEnd(std::shared_ptr<weir::Stream> about) : std::runtime_error("waits"), stream(std::move(about)) {}
  WaitsAtItsEnd(const WaitsAtItsEnd&) = default;
  WaitsAtItsEnd& operator=(const WaitsAtItsEnd&) = delete;
  ~WaitsAtItsEnd() override {
    if (stream.use_count() == 1) told = error_of([&] { stream->synchronize(); }).has_value();
  }
  std::shared_ptr<weir::Stream> stream;
  static inline bool told = false;
};

// A stream remembers what it reported last: the report of a later failure lets go of that, and of what its exception owns.
TEST(Reports, let_go_of_exceptions_that_wait_for_failed_streams) {
  WaitsAtItsEnd::told = false;
  const weir::Stream s(device_of_reports(), {.blocking = false});
  auto failed = std::make_shared<weir::Stream>(device_of_reports(), weir::StreamOptions{.blocking = false});
  weir::host_call(*failed, [] { throw std::runtime_error("nobody asked"); });
  EXPECT_TRUE(eventually([&] { return failed->done(); }));
  weir::host_call(s, [&failed] { throw WaitsAtItsEnd(std::move(failed)); });
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }));
  EXPECT_FALSE(WaitsAtItsEnd::told);
  weir::host_call(s, [] { throw std::runtime_error("a later one"); });
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }));
  EXPECT_TRUE(WaitsAtItsEnd::told);
}

/// Copies that return when they are done throw what their stream's synchronisation would.
void expect_that_it_waits(void (*copy)(const weir::Stream&, weir::Array<int>&, std::vector<int>&)) {
  Marker marker;
  std::vector<int> host(1 << 20, 1);
  auto x = weir::empty<int>(device_of_reports(), host.size());
  device_of_reports().synchronize();
  FailedAndHeld held(marker.word());
  ASSERT_TRUE(held.has_failed());
  const auto calls = [] { return fake_cuda::calls("cuStreamSynchronize") + fake_cuda::calls("cudaStreamSynchronize"); };
  const std::uint64_t waits = calls();
  std::atomic<bool> returned{false};
  std::thread copier([&] {
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { copy(held.s, x, host); }));
    returned = true;
  });
  EXPECT_TRUE(eventually([&] { return returned || calls() > waits; }));
  held.gate.open();
  copier.join();
  held.s.synchronize();
  EXPECT_EQ(marker.value(), 0);
}

TEST(Reports, a_copy_from_pageable_memory_waits_for_what_a_failure_skips) {
  expect_that_it_waits(
      [](const weir::Stream& s, weir::Array<int>& x, std::vector<int>& host) { weir::copy(s, x, host); });
}

TEST(Reports, a_copy_to_pageable_memory_waits_for_what_a_failure_skips) {
  expect_that_it_waits(
      [](const weir::Stream& s, weir::Array<int>& x, std::vector<int>& host) { weir::copy(s, host, x); });
}

//  s: [hold ......][throws][x -> target]       a device's synchronisation reports it before the copy's caller looks
class ReportsToOthers : public ::testing::TestWithParam<bool> {
 protected:
  /// `known`: the failure is there when the copy is called.
  bool known() const { return GetParam(); }

  template <class Source, class Target>
  void expect_that_it_throws(const Source& source, Target& target) {
    device_of_reports().synchronize();
    Gate gate;
    weir::Stream holder(device_of_reports(), {.blocking = false});
    if (known()) weir::host_call(s, [] { throw std::runtime_error("nothing is copied behind it"); });
    const weir::Event failed = s.record();
    EXPECT_TRUE(!known() || eventually([&] { return failed.done(); }));
    gate.hold(holder);
    s.wait(holder);
    if (!known()) weir::host_call(s, [] { throw std::runtime_error("nothing is copied behind it"); });
    std::optional<fake_cuda::HoldCalls> held("cuStreamSynchronize");
    const std::uint64_t waits = fake_cuda::calls("cuStreamSynchronize");
    const std::uint64_t kernels = fake_cuda::returned_calls("cudaLaunchKernel");
    std::optional<weir::Error> told;
    std::thread copier([&] { told = error_of([&] { weir::copy(s, target, source); }); });
    EXPECT_TRUE(eventually([&] {
      return fake_cuda::calls("cuStreamSynchronize") > waits || fake_cuda::returned_calls("cudaLaunchKernel") > kernels;
    }));
    gate.open();
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { device_of_reports().synchronize(); }));
    held.reset();
    copier.join();
    ASSERT_TRUE(told.has_value()) << "it returned as if it had copied";
    EXPECT_EQ(told->code(), weir::Errc::host_function_failed);
    weir::copy(s, target, source);
    EXPECT_EQ(target[0], 1);
  }

  weir::Stream s{device_of_reports(), {.blocking = false}};
};

INSTANTIATE_TEST_SUITE_P(, ReportsToOthers, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "failed_before" : "fails_later"; });

TEST_P(ReportsToOthers, a_small_copy_to_pageable_memory_throws_all_the_same) {
  std::vector<int> target(100);
  expect_that_it_throws(weir::full(s, target.size(), 1), target);
}

TEST_P(ReportsToOthers, a_large_copy_to_pageable_memory_throws_all_the_same) {
  std::vector<int> target(1 << 20);
  expect_that_it_throws(weir::full(s, target.size(), 1), target);
}

TEST_P(ReportsToOthers, a_copy_from_pinned_to_pageable_memory_throws_all_the_same) {
  std::vector<int> target(100);
  expect_that_it_throws(weir::full(weir::pinned, target.size(), 1), target);
}

}  // namespace
}  // namespace weir_test
