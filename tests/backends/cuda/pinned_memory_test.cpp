// Pinning and unpinning while the devices are busy.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"
#include "support/watchdog.hpp"

namespace {

using weir_test::eventually;

// The driver unpins when all kernels have ended (R59), and some of them may wait for a thread that looks for pinned memory.
TEST(FakePinnedMemory, is_found_and_given_back_while_another_thread_unpins) {
  auto kept = weir::empty<int>(weir::pinned, 1000);
  std::vector<int> host(1000);
  weir::pin(host.data(), host.size() * sizeof(int));
  auto hold = std::make_unique<fake_cuda::HoldCalls>("cudaHostUnregister");
  const std::uint64_t before = fake_cuda::calls("cudaHostUnregister");
  std::thread other([&] { weir::unpin(host.data()); });
  ASSERT_TRUE(eventually([&] { return fake_cuda::calls("cudaHostUnregister") > before; }));
  std::atomic<bool> waited{false};
  {
    const weir_test::Alarm alarm(std::chrono::seconds(5), [&] {
      waited = true;
      hold.reset();
    });
    kept = weir::empty<int>(weir::pinned, 5000);
  }
  EXPECT_FALSE(waited) << "it waited for the thread that unpins";
  if (!waited) hold.reset();
  other.join();
  weir::pin(host.data(), host.size() * sizeof(int));
  weir::unpin(host.data());
}

}  // namespace
