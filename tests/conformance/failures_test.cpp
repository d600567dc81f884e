// A kernel that throws: what the error says, when it comes out, what is skipped, and that the stream works again.
// On the CPU only: device code cannot throw, and a faulting CUDA kernel ends its context (R171).
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct BurstPipe {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
};
struct ThrowSeven {
  void operator()(std::size_t) const { throw 7; }
};
struct BurstAt {
  void operator()(std::size_t i, std::size_t where) const {
    if (i == where) throw std::runtime_error("the pipe burst at " + std::to_string(i));
  }
};
struct BurstBlock {
  void operator()(weir::Block& block) const {
    block.each([](std::size_t) { throw std::runtime_error("the block burst"); });
  }
};

class Failures : public testing::Test {
 protected:
  void TearDown() override {
    const auto left = error_of([&] { device_.synchronize(); });
    EXPECT_FALSE(left.has_value() && !HasFailure()) << "the test left a failure behind: " << left->what();
  }
  weir::Device device_ = weir::device("cpu");
};

TEST_F(Failures, the_error_names_kernel_stream_and_line_and_carries_the_exception) {
  weir::Stream s(device_, {.name = "upload"});
  const int line = __LINE__ + 1;
  weir::launch(s, 1, BurstPipe{});
  const auto error = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(error.has_value());
  const std::string message = error->what();
  EXPECT_EQ(error->errc(), weir::Errc::kernel_failed);
  EXPECT_EQ(error->operation(), "weir::launch");
  EXPECT_EQ(static_cast<int>(error->where().line()), line);
  EXPECT_NE(std::string(error->where().file_name()).find("failures_test.cpp"), std::string::npos);
  for (const char* word : {"BurstPipe", "upload", "the pipe burst", "failures_test.cpp"}) {
    EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is missing in: " << message;
  }
  EXPECT_NE(message.find(":" + std::to_string(line)), std::string::npos) << message;
  ASSERT_TRUE(error->cause());
  try {
    std::rethrow_exception(error->cause());
  } catch (const std::runtime_error& cause) {
    EXPECT_STREQ(cause.what(), "the pipe burst");
  }
}

TEST_F(Failures, the_error_uses_the_name_that_the_user_gave) {
  weir::Stream s(device_);
  weir::launch(s, weir::Extent{.size = 1, .name = "fill the basin"}, BurstPipe{});
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s.synchronize(); }, {"fill the basin"}));
}

TEST_F(Failures, cooperative_kernels_fail_like_others) {
  weir::Stream s(device_);
  weir::launch_blocks(s, {.blocks = 10, .threads = 10, .name = "weir of blocks"}, BurstBlock{});
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s.synchronize(); }, {"weir of blocks", "the block burst"}));
}

TEST_F(Failures, anything_can_be_thrown) {
  weir::Stream s(device_);
  weir::launch(s, 1, ThrowSeven{});
  const auto error = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(error.has_value());
  try {
    std::rethrow_exception(error->cause());
  } catch (int cause) {
    EXPECT_EQ(cause, 7);
  }
}

TEST_F(Failures, it_comes_out_once) {
  weir::Stream s(device_);
  weir::launch(s, 1, BurstPipe{});
  EXPECT_THROW(s.synchronize(), weir::Error);
  s.synchronize();
  device_.synchronize();
  weir::synchronize();
}

//  s: [fails][mark][host function][copy]       all skipped
TEST_F(Failures, later_work_of_the_stream_is_skipped) {
  Marker marker;
  bool called = false;
  weir::Stream s(device_);
  auto x = weir::full<int>(s, 10, 1);
  auto p = weir::zeros<int>(weir::pinned, 10);
  s.synchronize();
  weir::launch(s, 1, BurstPipe{});
  mark(s, marker);
  weir::host_call(s, [&called] { called = true; });
  weir::fill(s, x, 2);
  weir::copy(s, p, x);
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_EQ(marker.value(), 0);
  EXPECT_FALSE(called);
  EXPECT_EQ(p[0], 0);
  EXPECT_EQ(x.to_host(), std::vector<int>(10, 1));
}

//  s: [fails] ...the host learns nothing yet... [mark]      skipped too: bad data never runs on silently
TEST_F(Failures, work_enqueued_after_the_failure_happened_is_skipped_until_it_was_reported) {
  Marker marker;
  weir::Stream s(device_);
  weir::launch(s, 1, BurstPipe{});
  ASSERT_TRUE(eventually([&] { return s.done(); })) << "asking is no synchronisation and reports nothing";
  mark(s, marker);
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_EQ(marker.value(), 0);
}

TEST_F(Failures, after_the_report_the_stream_works_again) {
  Marker marker;
  weir::Stream s(device_);
  for (int round = 1; round <= 20; ++round) {
    weir::launch(s, 1, BurstPipe{});
    EXPECT_THROW(s.synchronize(), weir::Error);
    mark(s, marker, round);
    s.synchronize();
    EXPECT_EQ(marker.value(), round);
  }
}

//  s: [fails first][fails second: skipped]
TEST_F(Failures, the_first_failure_of_a_stream_is_the_one_reported) {
  weir::Stream s(device_);
  weir::launch(s, weir::Extent{.size = 1, .name = "first"}, BurstPipe{});
  weir::launch(s, weir::Extent{.size = 1, .name = "second"}, BurstPipe{});
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s.synchronize(); }, {"first"}));
  s.synchronize();
}

//  one element of a million throws, wherever it is
TEST_F(Failures, one_failing_element_fails_the_launch) {
  weir::Stream s(device_);
  for (const std::size_t where : {std::size_t{0}, std::size_t{4095}, std::size_t{500'000}, std::size_t{999'999}}) {
    weir::launch(s, 1'000'000, BurstAt{}, where);
    EXPECT_TRUE(fails_with(weir::Errc::kernel_failed, [&] { s.synchronize(); }, {"burst at " + std::to_string(where)}));
  }
}

//  every element throws, on every worker: one error, and nothing is left over
TEST_F(Failures, many_failing_elements_are_one_failure) {
  Marker marker;
  weir::Stream s(device_);
  for (int round = 1; round <= 20; ++round) {
    weir::launch(s, 100'000, BurstPipe{});
    EXPECT_THROW(s.synchronize(), weir::Error);
    s.synchronize();
    mark(s, marker, round);
    s.synchronize();
    ASSERT_EQ(marker.value(), round);
  }
}

//  s: [hold ......][fails]
TEST_F(Failures, a_failure_that_comes_while_the_host_waits_is_thrown_by_that_wait) {
  Gate gate;
  weir::Stream s(device_);
  gate.hold(s);
  weir::launch(s, 1, BurstPipe{});
  EXPECT_TRUE(fails_with(weir::Errc::kernel_failed,
                         [&] { EXPECT_TRUE(blocks_until_open(device_, gate, [&] { s.synchronize(); })); }));
}

TEST_F(Failures, arrays_of_a_failed_stream_are_given_back) {
  weir::Pool pool(device_);
  {
    weir::Stream s(device_);
    for (int round = 0; round < 10; ++round) {
      auto before = weir::empty<int>(s, 100'000, pool);
      weir::launch(s, 1, BurstPipe{});
      auto after = weir::empty<int>(s, 100'000, pool);
      weir::launch(s, 100'000, BurstAt{}, std::size_t{0});
    }
    EXPECT_THROW(s.synchronize(), weir::Error);
    auto again = weir::zeros<int>(s, 1000);
    EXPECT_EQ(again.to_host(), std::vector<int>(1000, 0));
  }
  EXPECT_EQ(pool.statistics().used, 0u);
}

TEST_F(Failures, N1_a_scope_that_synchronises_leaves_the_failure_to_the_next_synchronisation) {
  weir::Stream s(device_);
  {
    const weir::AutoSynchronize scope(s);
    weir::launch(s, 1, BurstPipe{});
  }
  EXPECT_TRUE(s.done());
  EXPECT_THROW(s.synchronize(), weir::Error);
}

}  // namespace
}  // namespace weir_test
