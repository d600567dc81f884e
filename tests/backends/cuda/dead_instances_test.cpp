// Instances with conditional nodes whose graphs are gone: they are destroyed when nothing is pending, and nobody is about to change that.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "backends/cuda/graphs/dead_instances.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

using weir::cuda::DeadInstances;
using weir::cuda::RoomCall;
using weir::cuda::RoomCalls;
using weir::cuda::RoomPause;

struct AddToEach {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x, int by) const { x[i] += by; }
};

class DeadInstancesTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const weir::Device& one : weir::devices("cuda")) one.synchronize();
    weir::launch(other, 1, AddToEach{}, weir::inout(y), 0);
    other.synchronize();
    EXPECT_TRUE(all_go_by_waits_for(s));  // those of earlier tests
  }
  static std::size_t instances() { return fake_cuda::outstanding().instances; }
  /// Whether all are gone by waits for the stream; threads of the library may be in a call at the moment of one.
  static bool all_go_by_waits_for(const weir::Stream& stream) {
    return eventually([&] {
      stream.synchronize();
      return instances() == 0;
    });
  }
  weir::Graph graph() const {
    return weir::capture(
        s, [&] { weir::capture_if(s, condition, [&] { weir::launch(s, 4, AddToEach{}, weir::inout(x), 1); }); });
  }

  const weir::Device device = weir::devices("cuda").at(0);
  const weir::Stream s{device, {.blocking = false}}, other{device, {.blocking = false}};
  const weir::Array<int> condition = weir::zeros<int>(s, 1), x = weir::zeros<int>(s, 4), y = weir::zeros<int>(other, 1);
};

TEST_F(DeadInstancesTest, go_at_the_next_wait_for_a_stream_that_leaves_nothing_pending) {
  Gate gate;
  gate.hold_by_host_call(other);
  graph();
  graph();
  s.synchronize();
  EXPECT_EQ(instances(), 2u);
  gate.open();
  EXPECT_TRUE(all_go_by_waits_for(other));
}

TEST_F(DeadInstancesTest, do_not_wait_for_other_devices) {
  const auto devices = weir::devices("cuda");
  ASSERT_GT(devices.size(), 1u);
  const weir::Stream elsewhere(devices[1], {.blocking = false});
  weir::Array<int> z = weir::zeros<int>(elsewhere, 1);
  elsewhere.synchronize();
  Gate gate;
  gate.hold_by_host_call(elsewhere);
  graph();
  EXPECT_TRUE(all_go_by_waits_for(s));
  {
    const weir::Graph of_both = weir::capture(s, [&] {
      const weir::Event begun(device);
      const weir::Event ended(devices[1]);
      s.record(begun);
      const weir::Stream there(devices[1], {.blocking = false});
      there.wait(begun);
      weir::launch(there, 1, AddToEach{}, weir::inout(z), 1);
      there.record(ended);
      s.wait(ended);
      weir::capture_if(s, condition, [&] { weir::launch(s, 4, AddToEach{}, weir::inout(x), 1); });
    });
  }
  s.synchronize();
  EXPECT_EQ(instances(), 1u);
  gate.open();
  EXPECT_TRUE(all_go_by_waits_for(elsewhere));
}

TEST_F(DeadInstancesTest, stay_while_another_thread_is_about_to_submit_something) {
  std::atomic<bool> inside{false};
  std::atomic<bool> leave{false};
  std::thread submitter([&] {
    const RoomCall call;
    inside = true;
    while (!leave) std::this_thread::yield();
  });
  EXPECT_TRUE(eventually([&] { return inside.load(); }));
  graph();
  EXPECT_EQ(instances(), 1u);
  leave = true;
  submitter.join();
  EXPECT_TRUE(all_go_by_waits_for(s));
}

TEST_F(DeadInstancesTest, are_bounded_by_waits) {
  Gate gate;
  gate.hold_by_host_call(other);
  for (std::size_t i = 0; i < DeadInstances::most; ++i) graph();
  EXPECT_EQ(instances(), DeadInstances::most);
  const std::uint64_t calls = fake_cuda::calls("cudaGraphExecDestroy");
  std::atomic<bool> returned{false};
  std::thread dropper([&] {
    graph();
    returned = true;
  });
  EXPECT_TRUE(eventually([&] { return fake_cuda::calls("cudaGraphExecDestroy") > calls; }));
  EXPECT_FALSE(returned);
  gate.open();
  dropper.join();
  EXPECT_TRUE(all_go_by_waits_for(other));
}

// Threads of the library, left by other tests, may make calls of their own meanwhile.

TEST(RoomPauseTest, does_not_hold_where_another_thread_has_made_a_call_since) {
  EXPECT_TRUE(eventually([] {
    const RoomCalls before;
    const RoomCall own;
    return RoomPause(before).holds();
  }));
  const RoomCalls before;
  std::thread([] { const RoomCall call; }).join();
  EXPECT_FALSE(RoomPause(before).holds());
}

TEST(RoomPauseTest, does_not_hold_where_another_thread_is_in_a_call) {
  std::atomic<bool> inside{false};
  std::atomic<bool> leave{false};
  std::thread caller([&] {
    const RoomCall call;
    inside = true;
    while (!leave) std::this_thread::yield();
  });
  EXPECT_TRUE(eventually([&] { return inside.load(); }));
  EXPECT_TRUE(RoomCalls().any());
  EXPECT_FALSE(RoomPause(RoomCalls()).holds());
  leave = true;
  caller.join();
}

TEST(RoomPauseTest, keeps_calls_from_beginning) {
  std::atomic<bool> inside{false};
  std::optional<RoomPause> pause;
  ASSERT_TRUE(eventually([&] { return pause.emplace(RoomCalls()).holds(); }));
  std::atomic<bool> comes{false};
  std::thread caller([&] {
    comes = true;
    const RoomCall call;
    inside = true;
  });
  EXPECT_TRUE(eventually([&] { return comes.load(); }));
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_FALSE(inside);
    std::this_thread::yield();
  }
  pause.reset();
  caller.join();
  EXPECT_TRUE(inside);
}

TEST(RoomPauseTest, is_never_beside_a_call) {
  if (!RoomPause::is_exact()) GTEST_SKIP() << "the kernel has no membarrier()";
  constexpr int pauses = 60'000;
  std::atomic<bool> stop{false};
  std::atomic<int> inside{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i) {
    callers.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        {
          const RoomCall call;
          inside.fetch_add(1, std::memory_order_relaxed);
          inside.fetch_sub(1, std::memory_order_relaxed);
        }
        for (int looks = 0; looks < 50; ++looks) static_cast<void>(stop.load(std::memory_order_relaxed));
      }
    });
  }
  int held = 0;
  int beside = 0;
  for (int i = 0; i < pauses; ++i) {
    const RoomPause pause{RoomCalls()};
    if (!pause.holds()) continue;
    ++held;
    for (int looks = 0; looks < 20; ++looks) beside += inside.load(std::memory_order_relaxed);
  }
  stop = true;
  for (std::thread& one : callers) one.join();
  EXPECT_GT(held, 0);
  EXPECT_EQ(beside, 0);
}

}  // namespace
}  // namespace weir_test
