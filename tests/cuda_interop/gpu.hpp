// The first GPU, or a test that says why it is skipped.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <optional>

#include <weir/weir.hpp>

namespace weir_test {

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    const auto gpus = weir::devices("cuda");
    if (gpus.empty()) GTEST_SKIP() << "no GPU: " << weir::why_absent("cuda");
    gpu_ = gpus.front();
    ASSERT_EQ(cudaSetDevice(gpu_->index()), cudaSuccess);
  }
  void TearDown() override {
    if (gpu_) gpu_->synchronize();
  }
  weir::Device gpu() const { return *gpu_; }

 private:
  std::optional<weir::Device> gpu_;
};

/// A stream of somebody else's.
class ForeignStream {
 public:
  ForeignStream() { EXPECT_EQ(cudaStreamCreateWithFlags(&handle_, cudaStreamNonBlocking), cudaSuccess); }
  ~ForeignStream() { EXPECT_EQ(cudaStreamDestroy(handle_), cudaSuccess); }
  ForeignStream(const ForeignStream&) = delete;
  ForeignStream& operator=(const ForeignStream&) = delete;
  cudaStream_t get() const { return handle_; }

 private:
  cudaStream_t handle_ = nullptr;
};

}  // namespace weir_test
