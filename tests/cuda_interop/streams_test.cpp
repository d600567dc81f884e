// Streams to and from CUDA: handles of ours in foreign calls, foreign handles as streams of ours.
#include <gtest/gtest.h>

#include <cuda/stream_ref>
#include <vector>

#include <weir/cuda_interop.hpp>
#include <weir/weir.hpp>

#include "gpu.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::fails_with;
using weir_test::ForeignStream;
using weir_test::Gate;
using weir_test::Marker;
using CudaInterop = weir_test::OnGpu;

constexpr std::size_t n = 1000;

TEST_F(CudaInterop, native_is_a_stream_for_foreign_calls_in_order) {
  const weir::Stream s(gpu());
  const auto a = weir::empty<unsigned char>(s, n);
  Gate gate;
  gate.hold_by_host_call(s);
  const cudaStream_t handle = weir::cuda::native(s);
  ASSERT_EQ(cudaMemsetAsync(a.data(), 7, n, handle), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(handle), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(a.to_host(), std::vector<unsigned char>(n, 7));
}

TEST_F(CudaInterop, native_becomes_a_stream_ref) {
  const weir::Stream s(gpu());
  const ::cuda::stream_ref ref = weir::cuda::native(s);
  EXPECT_EQ(ref.get(), weir::cuda::native(s));
  const weir::Stream again = weir::cuda::wrap_stream(gpu(), ref);
  EXPECT_EQ(weir::cuda::native(again), ref.get());
}

TEST_F(CudaInterop, native_of_the_legacy_stream_is_cudas) {
  const cudaStream_t handle = weir::cuda::native(weir::legacy_stream(gpu()));
  EXPECT_TRUE(handle == nullptr || handle == cudaStreamLegacy);
}

TEST(CudaInteropOnCpu, native_and_wrap_are_refused_by_name) {
  const weir::Device cpu = weir::device("cpu");
  const weir::Stream s(cpu);
  EXPECT_TRUE(
      fails_with(weir::Errc::not_supported, [&] { (void)weir::cuda::native(s); }, {"weir::cuda::native", "cpu"}));
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { (void)weir::cuda::wrap_stream(cpu, nullptr); },
                         {"weir::wrap_stream"}));
}

//   foreign:  hold, memset ... copy out
TEST_F(CudaInterop, a_wrapped_stream_is_in_order_with_the_owners_calls) {
  const ForeignStream foreign;
  const weir::Stream s = weir::cuda::wrap_stream(gpu(), foreign.get());
  EXPECT_EQ(weir::cuda::native(s), foreign.get());
  Gate gate;
  const auto pinned = weir::zeros<unsigned char>(weir::pinned, n);
  const auto a = weir::zeros<unsigned char>(s, n);
  gate.hold_by_host_call(s);
  ASSERT_EQ(cudaMemsetAsync(a.data(), 9, n, foreign.get()), cudaSuccess);
  weir::copy(s, pinned, a);
  EXPECT_FALSE(s.done());
  gate.open();
  ASSERT_EQ(cudaStreamSynchronize(foreign.get()), cudaSuccess);
  EXPECT_EQ(pinned[n - 1], 9);
}

TEST_F(CudaInterop, a_wrapped_stream_waits_and_is_waited_for) {
  const ForeignStream foreign;
  const weir::Stream wrapped = weir::cuda::wrap_stream(gpu(), foreign);
  const weir::Stream s(gpu(), {.blocking = false});
  Gate gate;
  const auto a = weir::zeros<unsigned char>(s, n);
  const auto pinned = weir::zeros<unsigned char>(weir::pinned, n);
  gate.hold_by_host_call(s);
  weir::fill(s, a, static_cast<unsigned char>(3));
  wrapped.wait(s);
  weir::copy(wrapped, pinned, a);
  EXPECT_EQ(cudaStreamQuery(foreign.get()), cudaErrorNotReady);
  s.wait(wrapped);
  weir::fill(s, a, static_cast<unsigned char>(4));
  gate.open();
  s.synchronize();
  EXPECT_EQ(pinned[0], 3);
}

TEST_F(CudaInterop, dropping_a_wrapped_stream_leaves_the_owners_stream_alone) {
  const ForeignStream foreign;
  { const weir::Stream s = weir::cuda::wrap_stream(gpu(), foreign); }
  EXPECT_EQ(cudaStreamQuery(foreign.get()), cudaSuccess);
  const weir::Stream again = weir::cuda::wrap_stream(gpu(), foreign);
  const auto a = weir::full(again, n, 1.5f);
  again.synchronize();
  EXPECT_EQ(a.to_host()[n - 1], 1.5f);
}

TEST_F(CudaInterop, null_wraps_the_legacy_default_stream) {
  const weir::Stream legacy = weir::cuda::wrap_stream(gpu(), nullptr);
  const weir::Stream blocking(gpu());
  Gate gate;
  Marker behind_the_gate;
  gate.hold_by_host_call(blocking);
  weir::host_call(blocking, [word = behind_the_gate.word()] { weir_test::store_word(word, 1); });
  const auto a = weir::full(legacy, n, 2);  // behind every blocking stream
  EXPECT_FALSE(legacy.done());
  gate.open();
  legacy.synchronize();
  EXPECT_EQ(behind_the_gate.value(), 1);
  EXPECT_EQ(a.to_host()[0], 2);
}

TEST_F(CudaInterop, external_work_gets_the_streams_handle_at_once) {
  const weir::Stream s(gpu());
  const auto a = weir::zeros<unsigned char>(s, n);
  Gate gate;
  gate.hold_by_host_call(s);
  cudaStream_t given = nullptr;
  weir::external(
      s,
      [&, data = a.data()](cudaStream_t stream) {
        given = stream;
        ASSERT_EQ(cudaMemsetAsync(data, 5, n, stream), cudaSuccess);
      },
      weir::out(a));
  EXPECT_EQ(given, weir::cuda::native(s));
  gate.open();
  EXPECT_EQ(a.to_host()[n - 1], 5);
}

}  // namespace
