// DLPack with memory of a GPU: the stream argument, and when memory goes back.
#include <gtest/gtest.h>

#include <vector>

#include <weir/cuda_interop.hpp>
#include <weir/dlpack.hpp>
#include <weir/weir.hpp>

#include "gpu.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::eventually;
using weir_test::fails_with;
using weir_test::ForeignStream;
using weir_test::Gate;
using DlpackOnGpu = weir_test::OnGpu;
namespace dl = weir::dlpack;

constexpr std::size_t n = 1000;

std::int64_t number_of(cudaStream_t stream) {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(stream));
}

template <class M>
void drop(M* tensor) {
  tensor->deleter(tensor);
}

TEST_F(DlpackOnGpu, names_the_gpu_and_its_address) {
  const weir::Stream s(gpu());
  const auto a = weir::zeros<float>(s, {4, 5});
  auto* tensor = weir::to_dlpack(a);
  EXPECT_EQ(tensor->dl_tensor.device.device_type, dl::kDLCUDA);
  EXPECT_EQ(tensor->dl_tensor.device.device_id, gpu().index());
  EXPECT_EQ(tensor->dl_tensor.data, a.data());
  drop(tensor);
}

TEST_F(DlpackOnGpu, numbers_streams_as_the_array_api_does) {
  const weir::Stream s(gpu());
  EXPECT_EQ(dl::stream_number(s), number_of(weir::cuda::native(s)));
  EXPECT_EQ(dl::stream_number(weir::legacy_stream(gpu())), 1);
}

TEST_F(DlpackOnGpu, makes_the_consumers_stream_wait_and_not_the_host) {
  const weir::Stream s(gpu(), {.blocking = false});
  const ForeignStream consumer;
  const auto a = weir::zeros<unsigned char>(s, n);
  const auto pinned = weir::zeros<unsigned char>(weir::pinned, n);
  Gate gate;
  gate.hold_by_host_call(s);
  weir::fill(s, a, static_cast<unsigned char>(8));
  dl::DLManagedTensorVersioned* tensor = nullptr;
  ASSERT_TRUE(weir_test::returns_while_held(gate, [&] { tensor = weir::to_dlpack(a, number_of(consumer.get())); }));
  ASSERT_EQ(cudaMemcpyAsync(pinned.data(), tensor->dl_tensor.data, n, cudaMemcpyDeviceToHost, consumer.get()),
            cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(consumer.get()), cudaErrorNotReady);
  gate.open();
  ASSERT_EQ(cudaStreamSynchronize(consumer.get()), cudaSuccess);
  EXPECT_EQ(pinned[n - 1], 8);
  drop(tensor);
}

TEST_F(DlpackOnGpu, orders_the_default_streams_too) {
  for (const std::optional<std::int64_t> number : {std::optional<std::int64_t>{}, {1}, {2}}) {
    const weir::Stream s(gpu(), {.blocking = false});
    const auto a = weir::zeros<int>(s, n);
    Gate gate;
    gate.hold_by_host_call(s);
    auto* tensor = weir::to_dlpack(a, number ? dl::Consumer(*number) : dl::Consumer());
    const cudaStream_t consumer = number == 2 ? cudaStreamPerThread : cudaStreamLegacy;
    EXPECT_EQ(cudaStreamQuery(consumer), cudaErrorNotReady) << number.value_or(0);
    gate.open();
    ASSERT_EQ(cudaStreamSynchronize(consumer), cudaSuccess);
    drop(tensor);
  }
}

TEST_F(DlpackOnGpu, for_minus_1_orders_nothing) {
  const weir::Stream s(gpu(), {.blocking = false});
  const ForeignStream consumer;
  const auto a = weir::zeros<int>(s, n);
  Gate gate;
  gate.hold_by_host_call(s);
  drop(weir::to_dlpack(a, -1));
  EXPECT_EQ(cudaStreamQuery(consumer.get()), cudaSuccess);
  gate.open();
}

TEST_F(DlpackOnGpu, refuses_0_which_could_mean_two_streams) {
  const weir::Stream s(gpu());
  const auto a = weir::zeros<int>(s, n);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { drop(weir::to_dlpack(a, 0)); }, {"legacy (1)"}));
}

/// A tensor in memory of cudaMalloc.
struct ForeignTensor {
  ForeignTensor() {
    EXPECT_EQ(cudaMalloc(&data, n * sizeof(float)), cudaSuccess);
    shape[0] = static_cast<std::int64_t>(n);
    tensor.dl_tensor = {data, {dl::kDLCUDA, 0}, 1, dl::data_type<float>, shape, nullptr, 0};
    tensor.manager_ctx = this;
    tensor.deleter = [](dl::DLManagedTensor* self) {
      auto* owner = static_cast<ForeignTensor*>(self->manager_ctx);
      owner->freed_with = cudaFree(owner->data);  // waits for the device: what frameworks do, and no host function may
      ++owner->deletions;
    };
  }
  void* data = nullptr;
  std::int64_t shape[1] = {};
  dl::DLManagedTensor tensor{};
  cudaError_t freed_with = cudaErrorUnknown;
  std::atomic<int> deletions{0};
};

TEST_F(DlpackOnGpu, takes_foreign_memory_as_the_streams_own) {
  ForeignTensor foreign;
  const weir::Stream s(gpu());
  {
    const auto x = weir::from_dlpack<float>(&foreign.tensor, s);
    EXPECT_EQ(x.data(), foreign.data);
    EXPECT_EQ(x.kind(), weir::MemoryKind::device);
    EXPECT_EQ(x.stream(), s);
    weir::fill(s, x, 2.5f);
    EXPECT_EQ(x.to_host(), std::vector<float>(n, 2.5f));
  }
  EXPECT_TRUE(eventually([&] { return foreign.deletions == 1; }));
}

TEST_F(DlpackOnGpu, hands_memory_back_outside_of_host_functions_when_the_work_is_done) {
  ForeignTensor foreign;
  const weir::Stream s(gpu());
  Gate gate;
  gate.hold_by_host_call(s);
  {
    const auto x = weir::from_dlpack<float>(&foreign.tensor, s);
    weir::fill(s, x, 2.5f);
  }
  EXPECT_EQ(foreign.deletions, 0);
  gate.open();
  s.synchronize();
  EXPECT_TRUE(eventually([&] { return foreign.deletions == 1; }));
  EXPECT_EQ(foreign.freed_with, cudaSuccess);
}

TEST_F(DlpackOnGpu, wants_a_stream_of_the_tensors_gpu) {
  ForeignTensor foreign;
  const weir::Stream s(gpu());
  foreign.tensor.dl_tensor.device.device_id = 99;
  EXPECT_TRUE(
      fails_with(weir::Errc::unknown_device, [&] { (void)weir::from_dlpack<float>(&foreign.tensor, s); }, {"cuda:99"}));
  foreign.tensor.dl_tensor.device.device_id = 0;
  const weir::Stream other(weir::device("cpu"));
  EXPECT_TRUE(fails_with(weir::Errc::wrong_device, [&] { (void)weir::from_dlpack<float>(&foreign.tensor, other); },
                         {"cuda:0"}));
  drop(&foreign.tensor);
}

}  // namespace
