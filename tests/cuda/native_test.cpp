// The CUDA side of streams: handles, foreign streams, foreign work, __global__ functions.
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <weir/cuda.hpp>

#include "on_gpu.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {

__global__ void add_to_all(int* x, std::size_t n, int by) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < n) x[i] += by;
}
__global__ void copy_view(weir::View<const int> x, weir::View<int> y) {
  const std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (i < y.size()) y[i] = x[i];
}
__global__ void reverse_block(int* x) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

namespace {

using Native = OnGpu;

TEST_F(Native, global_functions_run_in_stream_order) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 1000);
  auto y = weir::empty<int>(s, 1000);
  weir::cuda::launch(s, 4, 256, 0, add_to_all, weir::inout(x), x.size(), 3);
  weir::cuda::launch(s, 4, 256, 0, copy_view, weir::in(x), weir::out(y));
  EXPECT_EQ(y.to_host(), std::vector<int>(1000, 3));
}

TEST_F(Native, global_functions_use_shared_memory) {
  weir::Stream s(device());
  auto x = weir::from(s, std::vector<int>{1, 2, 3, 4});
  weir::cuda::launch(s, 1, 4, 4 * sizeof(int), reverse_block, weir::inout(x));
  EXPECT_EQ(x.to_host(), (std::vector<int>{4, 3, 2, 1}));
}

TEST_F(Native, a_launch_that_the_driver_refuses_is_an_error_and_changes_nothing) {
  weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value,
                         [&] { weir::cuda::launch(s, 1, 4096, 0, reverse_block, weir::inout(x)); },
                         {"weir::cuda::launch", "cudaError", "native_test.cpp"}));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 0));
}

TEST_F(Native, global_functions_are_for_gpus) {
  weir::Stream s(weir::device("cpu"));
  auto x = weir::zeros<int>(s, 4);
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { weir::cuda::launch(s, 1, 4, 0, reverse_block, x.data()); },
                         {"weir::cuda::launch", "native_test.cpp"}));
}

//  s: [hold ......]|foreign copy      by the native handle
TEST_F(Native, the_handle_is_the_stream) {
  Gate gate;
  weir::Stream s(device());
  auto x = weir::full<int>(s, 10, 1);
  const auto y = weir::full<int>(s, 10, 2);
  gate.hold(s);
  cudaMemcpyAsync(x.data(), y.data(), 10 * sizeof(int), cudaMemcpyDefault, weir::cuda::native(s));
  EXPECT_EQ(cudaStreamQuery(weir::cuda::native(s)), cudaErrorNotReady);
  EXPECT_FALSE(s.done());
  gate.open();
  EXPECT_EQ(x.to_host(), std::vector<int>(10, 2));
}

TEST_F(Native, foreign_work_is_called_at_once_with_the_handle) {
  weir::Stream s(device());
  auto x = weir::full<int>(s, 10, 1);
  bool called = false;
  weir::external(
      s,
      [&](cudaStream_t stream) {
        called = true;
        add_to_all<<<1, 32, 0, stream>>>(x.data(), 10, 4);
      },
      weir::inout(x));
  EXPECT_TRUE(called);
  EXPECT_EQ(x.to_host(), std::vector<int>(10, 5));
}

TEST_F(Native, a_foreign_stream_works_like_any_other) {
  cudaStream_t foreign = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking), cudaSuccess);
  {
    Gate gate;
    weir::Stream s = weir::wrap_stream(device(), foreign);
    EXPECT_EQ(s.native(), foreign);
    auto x = weir::full<int>(s, 10, 1);
    gate.hold(s);
    add_to_all<<<1, 32, 0, foreign>>>(x.data(), 10, 4);
    mark(s, Marker());
    EXPECT_FALSE(s.done());
    weir::Stream other(device());
    other.wait(s);
    auto y = weir::empty<int>(other, 10);
    weir::copy(other, y, x);
    gate.open();
    EXPECT_EQ(y.to_host(), std::vector<int>(10, 5));
    s.synchronize();
  }
  EXPECT_EQ(cudaStreamQuery(foreign), cudaSuccess) << "it is still its owner's";
  EXPECT_EQ(cudaStreamDestroy(foreign), cudaSuccess);
}

//  foreign: [hold ......] x used here      its owner ends it; x goes when the work is through
TEST_F(Native, arrays_outlive_the_foreign_streams_that_used_them) {
  Gate gate;
  cudaStream_t foreign = nullptr;
  ASSERT_EQ(cudaStreamCreateWithFlags(&foreign, cudaStreamNonBlocking), cudaSuccess);
  weir::Stream home(device());
  auto x = weir::full<int>(home, 1000, 1);
  auto result = weir::zeros<int>(weir::pinned, 1000);
  home.synchronize();
  {
    weir::Stream s = weir::wrap_stream(device(), foreign);
    gate.hold(s);
    weir::copy(s, result, x);
  }
  EXPECT_EQ(cudaStreamDestroy(foreign), cudaSuccess);
  x = weir::Array<int>();
  auto reuse = weir::full<int>(home, 1000, -1);
  home.synchronize();
  gate.open();
  device().synchronize();
  EXPECT_EQ(result[0], 1);
  EXPECT_EQ(result[999], 1);
}

//  s: [hold ......]      200 streams more, each with work
TEST_F(Native, R60_many_new_streams_come_without_waiting_for_running_kernels) {
  Gate gate;
  weir::Stream held(device());
  gate.hold(held);
  std::vector<weir::Stream> streams;
  EXPECT_TRUE(returns_while_held(gate, [&] {
    for (int i = 0; i < 200; ++i) {
      streams.emplace_back(device(), weir::StreamOptions{.blocking = i % 2 == 0});
      EXPECT_NE(streams.back().native(), nullptr);
    }
  }));
}

//  legacy: [host function ......]      s: [small copy of what it writes]      and the other way round
TEST_F(Native, small_copies_from_pinned_memory_keep_the_legacy_streams_order) {
  const weir::StreamRef legacy = weir::legacy_stream(device());
  weir::Stream s(device());
  for (const std::size_t n :
       {std::size_t{1}, std::size_t{40}, std::size_t{1000}, std::size_t{16384}, std::size_t{20000}}) {
    auto p = weir::full<int>(weir::pinned, n, 1);
    const auto write = [first = p.data()] {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));  // not for an order: to be late if there is none
      *first = 7;
    };
    for (const auto& [writer, reader] : {std::pair<weir::StreamRef, weir::StreamRef>{legacy, s}, {s, legacy}}) {
      auto x = weir::zeros<int>(reader, n);
      weir::synchronize();
      p.data()[0] = 1;
      weir::host_call(writer, write);
      weir::copy(reader, x, p);
      reader.synchronize();
      EXPECT_EQ(x.to_host()[0], 7) << n;
    }
  }
}

TEST_F(Native, the_current_device_is_left_as_it_was) {
  int count = 0;
  ASSERT_EQ(cudaGetDeviceCount(&count), cudaSuccess);
  for (int current = 0; current < count; ++current) {
    ASSERT_EQ(cudaSetDevice(current), cudaSuccess);
    for (const weir::Device& gpu : weir::devices("cuda")) {
      weir::Stream s(gpu);
      auto x = weir::full<int>(s, 10, 1);
      weir::launch(s, 1, WriteMark{}, Marker().word(), 1);
      weir::host_call(s, [] {});
      s.wait(s.record());
      EXPECT_EQ(x.to_host(), std::vector<int>(10, 1));
      weir::synchronize();
      int now = -1;
      EXPECT_EQ(cudaGetDevice(&now), cudaSuccess);
      EXPECT_EQ(now, current);
    }
  }
  cudaSetDevice(0);
}

TEST_F(Native, work_queues_are_asked_for_before_the_driver_starts) {
  const char* wanted = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  ASSERT_NE(wanted, nullptr);
  EXPECT_STRNE(wanted, "");
}

}  // namespace
}  // namespace weir_test
