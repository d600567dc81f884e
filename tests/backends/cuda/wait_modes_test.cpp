// Wait modes as the driver is told of them.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <thread>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::eventually;

unsigned schedule_of(weir::Device device) {
  int before = 0;
  unsigned flags = 0;
  EXPECT_EQ(cudaGetDevice(&before), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(device.index()), cudaSuccess);
  EXPECT_EQ(cudaGetDeviceFlags(&flags), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(before), cudaSuccess);
  return flags & cudaDeviceScheduleMask;
}

struct Automatic {
  ~Automatic() { weir::set_wait_mode(weir::WaitMode::automatic); }
};

TEST(FakeWaitModes, are_the_schedule_flags_of_their_device) {
  const Automatic afterwards;
  const weir::Device device = weir::device("cuda");
  weir::zeros<int>(device, 1).to_host();  // it has started
  weir::set_wait_mode(device, weir::WaitMode::spin);
  EXPECT_EQ(schedule_of(device), static_cast<unsigned>(cudaDeviceScheduleSpin));
  weir::set_wait_mode(device, weir::WaitMode::yield);
  EXPECT_EQ(schedule_of(device), static_cast<unsigned>(cudaDeviceScheduleYield));
  weir::set_wait_mode(weir::WaitMode::block);
  EXPECT_EQ(schedule_of(device), static_cast<unsigned>(cudaDeviceScheduleBlockingSync));
  weir::set_wait_mode(device, weir::WaitMode::automatic);
  EXPECT_EQ(schedule_of(device), static_cast<unsigned>(cudaDeviceScheduleAuto));
}

/// The driver would spin in a wait for an event that was not made for blocking.
TEST(FakeWaitModes, block_waits_for_streams_not_for_events) {
  const Automatic afterwards;
  const weir::Device device = weir::device("cuda");
  weir::set_wait_mode(device, weir::WaitMode::block);
  weir_test::Gate gate;
  const weir::Stream stream(device);
  gate.hold(stream);
  const weir::Event event = stream.record();
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  const std::uint64_t events = fake_cuda::calls("cudaEventSynchronize");
  const std::uint64_t streams = fake_cuda::calls("cudaStreamSynchronize");
  std::thread opens([&] {
    static_cast<void>(eventually([&] { return fake_cuda::calls("cudaStreamSynchronize") > streams; }));
    gate.open();
  });
  event.synchronize();
  EXPECT_TRUE(gate.is_open());
  opens.join();
  EXPECT_EQ(fake_cuda::calls("cudaEventSynchronize"), events);
}

}  // namespace
