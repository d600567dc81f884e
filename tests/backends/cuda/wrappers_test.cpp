// What wrappers of one foreign stream share: its failures, which are the stream's, and no other's.
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>

#include <cuda_runtime_api.h>

#include <weir/weir.hpp>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

weir::Device gpu() { return weir::devices("cuda").at(0); }

class Foreign {
 public:
  Foreign() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Foreign() { EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess); }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;
  weir::Stream wrapped() const { return weir::wrap_stream(gpu(), stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

void fail(const weir::Stream& stream) {
  weir::host_call(stream, [] { throw std::runtime_error("behind it nothing runs"); });
}
bool tells_failure(const weir::Stream& stream) {
  return fails_with(weir::Errc::host_function_failed, [&] { stream.synchronize(); });
}

/// The first fails while it is held; what the second has behind that is skipped, and one of both tells it.
void expect_one_state(const weir::Stream& first, const weir::Stream& second) {
  Marker marker;
  Gate gate;
  gate.hold(first);
  fail(first);
  mark(second, marker);
  const weir::Event behind = second.record();
  gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { behind.synchronize(); }));
  EXPECT_TRUE(tells_failure(second));
  EXPECT_EQ(marker.value(), 0) << "it ran behind the failure";
  first.synchronize();  // told once
  mark(first, marker);
  first.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST(Wrappers, of_one_foreign_stream_fail_together) {
  const Foreign foreign;
  const weir::Stream first = foreign.wrapped();
  const weir::Stream second = foreign.wrapped();
  expect_one_state(first, second);
  expect_one_state(second, first);
}

TEST(Wrappers, of_a_stream_of_the_librarys_fail_with_it) {
  const weir::Stream own(gpu(), {.blocking = false});
  const weir::Stream wrapper = weir::wrap_stream(gpu(), own.native());
  expect_one_state(own, wrapper);
  expect_one_state(wrapper, own);
}

TEST(Wrappers, of_the_legacy_stream_fail_with_it) {
  const weir::Stream wrapper = weir::wrap_stream(gpu(), nullptr);
  Marker marker;
  fail(wrapper);
  mark(weir::legacy_stream(gpu()), marker);
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [] { weir::legacy_stream(gpu()).synchronize(); }));
  EXPECT_EQ(marker.value(), 0);
  wrapper.synchronize();
}

TEST(Wrappers, that_end_leave_the_failure_to_those_that_are_left) {
  const Foreign foreign;
  const Foreign other;
  Marker marker;
  std::optional<weir::Stream> first = foreign.wrapped();
  const weir::Stream second = foreign.wrapped();
  fail(*first);
  const weir::Event failed = first->record();
  EXPECT_TRUE(eventually([&] { return failed.done(); }));
  first.reset();
  const weir::Stream next = other.wrapped();  // what the first one was serves again
  mark(next, marker, 1);
  next.synchronize();
  EXPECT_EQ(marker.value(), 1) << "another stream's failure stopped it";
  mark(second, marker, 2);
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { failed.synchronize(); }));
  EXPECT_TRUE(tells_failure(second));
  EXPECT_EQ(marker.value(), 1);
  fail(next);
  mark(second, marker, 3);
  second.synchronize();
  EXPECT_EQ(marker.value(), 3) << "another stream's failure stopped it";
  EXPECT_TRUE(tells_failure(next));
}

TEST(Wrappers, that_all_ended_leave_the_failure_to_the_device) {
  const Foreign foreign;
  Marker marker;
  {
    const weir::Stream first = foreign.wrapped();
    const weir::Stream second = foreign.wrapped();
    fail(first);
    const weir::Event failed = second.record();
    EXPECT_TRUE(eventually([&] { return failed.done(); }));
  }
  const weir::Stream again = foreign.wrapped();
  mark(again, marker);
  again.synchronize();
  EXPECT_EQ(marker.value(), 1) << "nobody knows that it is the same stream";
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [] { gpu().synchronize(); }));
  gpu().synchronize();
}

}  // namespace
}  // namespace weir_test
