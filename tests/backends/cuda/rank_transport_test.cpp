// Streams for what ranks that are processes copy.
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <thread>

#include <weir/weir.hpp>

#include "backends/cuda/collectives/rank_transport.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

constexpr const char* streams_made_by = "cudaStreamCreateWithPriority";

TEST(RankTransports, of_one_device_do_not_wait_while_the_streams_of_another_one_are_opened) {
  for (const weir::Device device : weir::devices("cuda")) weir::Stream(device).synchronize();
  weir::cuda::RankTransport first(weir::cuda::CudaDevice::at(0));
  first.start({});
  weir::cuda::RankTransport second(weir::cuda::CudaDevice::at(1));
  std::optional<fake_cuda::HoldCalls> held(streams_made_by);
  std::thread opening([&] { second.start({}); });
  EXPECT_TRUE(eventually([&] { return held->holds(opening.get_id()); }));  // not the housekeeper alone
  std::atomic<bool> over{false};
  std::thread again([&] {
    first.start({});
    over = true;
  });
  EXPECT_TRUE(eventually([&] { return over.load(); }));
  held.reset();
  opening.join();
  again.join();
}

}  // namespace
}  // namespace weir_test
