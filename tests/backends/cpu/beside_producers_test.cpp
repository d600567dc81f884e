// A worker that comes to the end of a queue while a producer has the queue's lock.
#include <gtest/gtest.h>

#include <cstring>

#include <weir/weir.hpp>

#include "own_device.hpp"

namespace weir_test {
namespace {

using weir::cpu::CpuQueue;

class BesideProducers : public OwnDevice {
 protected:
  struct Closure {
    BesideProducers* test;
    CpuQueue* queue;
  };
  /// Made under the producers' lock.
  static void copy_closure(void* to, const void* from) {
    const auto& closure = *static_cast<const Closure*>(from);
    closure.test->take_a_turn(*closure.queue);
    std::memcpy(to, from, sizeof(Closure));
  }
  static void run(const void* closure, const weir::KernelRange&) {
    ++static_cast<const Closure*>(closure)->test->kernels_;
  }

  void launch_with_a_turn_under_the_lock(CpuQueue& queue) {
    kernel_.rank = 1;
    kernel_.closure_bytes = sizeof(Closure);
    kernel_.closure_align = alignof(Closure);
    kernel_.copy = &copy_closure;
    kernel_.run = &run;
    const Closure closure{this, &queue};
    queue.launch(queue.stream(), kernel_, &closure, 1, {});
  }
  void take_a_turn(CpuQueue& queue) {
    weir::cpu::Runner runner;
    runner.worker = true;
    const int ready = device_.pool().ready();
    commands_of_turn_ = queue.run_popped(runner);
    listed_by_turn_ = device_.pool().ready() - ready;
  }

  std::uint64_t commands_of_turn_ = 0;
  int listed_by_turn_ = 0;
  int kernels_ = 0;

 private:
  weir::Kernel kernel_{};  // as long as its launch is pending
};

// A user's copy constructor may last, and may wait for what only this worker would do.
TEST_F(BesideProducers, a_worker_leaves_the_queue_to_one_whose_closure_is_being_copied) {
  CpuQueue& queue = open();
  submit_work(queue);
  const int ready = device_.pool().ready();
  launch_with_a_turn_under_the_lock(queue);
  EXPECT_EQ(commands_of_turn_, 1u);
  EXPECT_EQ(listed_by_turn_, 0);
  EXPECT_EQ(device_.pool().ready(), ready + 1);
  EXPECT_FALSE(queue.done());
  queue.wait_until(queue.tail());
  EXPECT_EQ(kernels_, 1);
}

}  // namespace
}  // namespace weir_test
