// cuBLAS on a Weir stream, as external work between commands of Weir's.
#include <cublas_v2.h>
#include <gtest/gtest.h>

#include <vector>

#include <weir/cuda_interop.hpp>
#include <weir/weir.hpp>

#include "gpu.hpp"
#include "support/gate.hpp"

namespace {

class Cublas : public weir_test::OnGpu {
 protected:
  void SetUp() override {
    OnGpu::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(cublasCreate(&handle_), CUBLAS_STATUS_SUCCESS);
  }
  void TearDown() override {
    OnGpu::TearDown();
    if (handle_ != nullptr) cublasDestroy(handle_);
  }
  cublasHandle_t handle_ = nullptr;
};

//   s:  hold, fill x, fill y, saxpy, fill x, copy y out
TEST_F(Cublas, runs_in_the_order_of_the_stream) {
  constexpr int n = 5000;
  const weir::Stream s(gpu());
  const auto x = weir::zeros<float>(s, n);
  const auto y = weir::zeros<float>(s, n);
  const auto result = weir::zeros<float>(weir::pinned, n);
  const auto saxpy = [&] {
    weir::external(
        s,
        [&](cudaStream_t stream) {
          const float two = 2;
          ASSERT_EQ(cublasSetStream(handle_, stream), CUBLAS_STATUS_SUCCESS);
          ASSERT_EQ(cublasSaxpy(handle_, n, &two, x.data(), 1, y.data(), 1), CUBLAS_STATUS_SUCCESS);
        },
        weir::in(x), weir::inout(y));
  };
  saxpy();  // loading its kernels waits for the device
  s.synchronize();
  weir_test::Gate gate;
  gate.hold_by_host_call(s);
  weir::fill(s, x, 3.0f);
  weir::fill(s, y, 1.0f);
  saxpy();
  weir::fill(s, x, 100.0f);
  weir::copy(s, result, y);
  EXPECT_FALSE(s.done());
  gate.open();
  s.synchronize();
  EXPECT_EQ(std::vector<float>(result.begin(), result.end()), std::vector<float>(n, 7.0f));
}

//   a:  hold, fill m      b:  wait a, sgemm      a:  wait b, copy out
TEST_F(Cublas, on_another_stream_waits_for_events) {
  constexpr int k = 64;
  const weir::Stream a(gpu(), {.blocking = false});
  const weir::Stream b(gpu(), {.blocking = false});
  const auto m = weir::zeros<float>(a, {k, k});
  const auto product = weir::zeros<float>(a, {k, k});
  const auto result = weir::zeros<float>(weir::pinned, {k, k});
  const auto multiply = [&] {
    weir::external(
        b,
        [&](cudaStream_t stream) {
          const float one = 1;
          const float zero = 0;
          ASSERT_EQ(cublasSetStream(handle_, stream), CUBLAS_STATUS_SUCCESS);
          ASSERT_EQ(cublasSgemm(handle_, CUBLAS_OP_N, CUBLAS_OP_N, k, k, k, &one, m.data(), k, m.data(), k, &zero,
                                product.data(), k),
                    CUBLAS_STATUS_SUCCESS);
        },
        weir::in(m), weir::out(product));
  };
  b.wait(a);
  multiply();
  gpu().synchronize();
  weir_test::Gate gate;
  gate.hold_by_host_call(a);
  weir::fill(a, m, 0.5f);
  b.wait(a.record());
  multiply();
  a.wait(b);
  weir::copy(a, result, product);
  EXPECT_FALSE(b.done());
  gate.open();
  a.synchronize();
  EXPECT_EQ(std::vector<float>(result.begin(), result.end()), std::vector<float>(k * k, 16.0f));
}

// capture:  fill x, saxpy y += 2 x   (twice: as external work, and by a call that Weir does not see)
TEST_F(Cublas, is_captured_into_graphs) {
  constexpr int n = 5000;
  const weir::Stream s(gpu());
  const auto x = weir::full(s, n, 3.0f);
  const auto y = weir::zeros<float>(s, n);
  const float two = 2;
  ASSERT_EQ(cublasSetStream(handle_, weir::cuda::native(s)), CUBLAS_STATUS_SUCCESS);
  const auto saxpy = [&] { ASSERT_EQ(cublasSaxpy(handle_, n, &two, x.data(), 1, y.data(), 1), CUBLAS_STATUS_SUCCESS); };
  saxpy();  // loading its kernels waits for the device
  s.synchronize();
  const weir::Graph graph = weir::capture(s, [&] {
    weir::fill(s, y, 1.0f);
    saxpy();
    weir::external(
        s, [&](cudaStream_t) { saxpy(); }, weir::in(x), weir::inout(y));
  });
  EXPECT_EQ(y.to_host(), std::vector<float>(n, 6.0f));
  graph.launch(s);
  EXPECT_EQ(y.to_host(), std::vector<float>(n, 13.0f));
  weir::fill(s, x, 1.0f);
  graph.launch(s);
  EXPECT_EQ(y.to_host(), std::vector<float>(n, 5.0f));
}

}  // namespace
