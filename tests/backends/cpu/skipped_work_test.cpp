// What becomes of work behind a failure, and of failures whose streams are gone, in queues that the test runs itself.
#include <memory>
#include <stdexcept>
#include <string>

#include "own_device.hpp"

namespace weir_test {
namespace {

using weir::cpu::CpuQueue;

class SkippedWork : public OwnDevice {
 protected:
  static void fail(CpuQueue& queue, const char* text) {
    queue.submit(command_of([text] { throw std::runtime_error(text); }));
  }
  /// What a synchronisation of the device throws.
  std::string reported() {
    try {
      device_.synchronize("test", {});
    } catch (const weir::Error& error) {
      return error.what();
    }
    return "nothing";
  }
};

TEST_F(SkippedWork, a_kernel_that_owns_something_is_destroyed_though_it_is_skipped) {
  const auto token = std::make_shared<int>(0);
  const weir::Stream s(weir::device("cpu"));
  weir::host_call(s, [] { throw std::runtime_error("the pipe burst"); });
  weir::launch(s, 10, [token](std::size_t) { *token += 1; });
  weir::launch_blocks(s, {2, 4}, [token](weir::Block&) { *token += 1; });
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_EQ(token.use_count(), 1);
  EXPECT_EQ(*token, 0);
}

TEST_F(SkippedWork, failures_of_queues_that_are_gone_are_reported_oldest_first) {
  CpuQueue& a = open();
  CpuQueue& b = open();
  CpuQueue& c = open();
  CpuQueue* const order[] = {&b, &c, &a};
  const char* const texts[] = {"the first", "the second", "the third"};
  for (int i = 0; i < 3; ++i) {
    fail(*order[i], texts[i]);
    order[i]->wait_until(order[i]->tail());
    order[i]->retire();
  }
  for (const char* text : texts) EXPECT_NE(reported().find(text), std::string::npos) << text;
  EXPECT_EQ(reported(), "nothing");
}

// One element that is waited for is run by a way of its own.
TEST_F(SkippedWork, a_host_that_waits_runs_no_kernel_behind_a_failure) {
  static int ran;
  ran = 0;
  weir::Kernel kernel{};
  kernel.rank = 1;
  kernel.run = [](const void*, const weir::KernelRange&) { ++ran; };
  CpuQueue& queue = open();
  const auto launch_and_wait = [&] {
    queue.launch_empty(queue.stream(), kernel, nullptr, 1, {});
    queue.wait_until(queue.tail());
  };
  launch_and_wait();
  EXPECT_EQ(ran, 1);
  fail(queue, "the pipe burst");
  queue.wait_until(queue.tail());
  launch_and_wait();
  EXPECT_EQ(ran, 1);
  EXPECT_EQ(queue.completed(), queue.tail());
  EXPECT_THROW(queue.synchronize("test", {}), weir::Error);
  launch_and_wait();
  EXPECT_EQ(ran, 2);
}

}  // namespace
}  // namespace weir_test
