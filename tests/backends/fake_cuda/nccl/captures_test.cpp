// What the fake NCCL makes of captured groups: kernels of a replay that wait for each other across devices.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <array>

#include "backends/cuda/collectives/nccl_library.hpp"

namespace {

using weir::cuda::nccl;
using weir::cuda::NcclLibrary;
using weir::cuda::NcclOperation;
using weir::cuda::NcclResult;
using weir::cuda::NcclType;

constexpr cudaError_t done = cudaSuccess;

/// A communicator of two devices, with a stream and an array of one number on each, captured in one graph.
struct FakeNccl : ::testing::Test {
  std::array<NcclLibrary::Comm, 2> comms{};
  std::array<cudaStream_t, 2> streams{};
  std::array<int*, 2> numbers{};
  cudaEvent_t fork = nullptr;
  cudaEvent_t join = nullptr;

  void SetUp() override {
    const int devices[] = {0, 1};
    ASSERT_EQ(nccl().why_absent, "");
    ASSERT_EQ(nccl().CommInitAll(comms.data(), 2, devices), NcclResult::success);
    for (int r = 0; r < 2; ++r) {
      const auto rank = static_cast<std::size_t>(r);
      ASSERT_EQ(cudaSetDevice(r), done);
      ASSERT_EQ(cudaStreamCreateWithFlags(&streams[rank], cudaStreamNonBlocking), done);
      void* memory = nullptr;
      ASSERT_EQ(cudaMalloc(&memory, sizeof(int)), done);
      numbers[rank] = static_cast<int*>(memory);
      *numbers[rank] = r + 1;
      ASSERT_EQ(cudaEventCreateWithFlags(r == 0 ? &fork : &join, cudaEventDisableTiming), done);
    }
    ASSERT_EQ(cudaSetDevice(0), done);
    sum();  // its first call connects the ranks
    synchronize();
  }

  void TearDown() override {
    for (std::size_t r = 0; r < 2; ++r) {
      EXPECT_EQ(nccl().CommDestroy(comms[r]), NcclResult::success);
      EXPECT_EQ(cudaStreamDestroy(streams[r]), done);
      EXPECT_EQ(cudaFree(numbers[r]), done);
    }
    EXPECT_EQ(cudaEventDestroy(fork), done);
    EXPECT_EQ(cudaEventDestroy(join), done);
  }

  NcclResult sum() {
    NcclResult answer = nccl().GroupStart();
    for (std::size_t r = 0; r < 2 && answer == NcclResult::success; ++r) {
      answer = nccl().AllReduce(numbers[r], numbers[r], 1, NcclType::i32, NcclOperation::sum, comms[r], streams[r]);
    }
    const NcclResult end = nccl().GroupEnd();
    return answer == NcclResult::success ? end : answer;
  }

  void synchronize() {
    for (cudaStream_t stream : streams) EXPECT_EQ(cudaStreamSynchronize(stream), done);
  }

  /// Two sums in one graph over both devices.
  cudaGraph_t capture() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed), done);
    EXPECT_EQ(cudaEventRecord(fork, streams[0]), done);
    EXPECT_EQ(cudaStreamWaitEvent(streams[1], fork, cudaEventWaitDefault), done);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(sum(), NcclResult::success);
    EXPECT_EQ(cudaEventRecord(join, streams[1]), done);
    EXPECT_EQ(cudaStreamWaitEvent(streams[0], join, cudaEventWaitDefault), done);
    EXPECT_EQ(cudaStreamEndCapture(streams[0], &graph), done);
    return graph;
  }
};

TEST_F(FakeNccl, a_captured_group_runs_in_each_replay_on_all_devices) {
  EXPECT_EQ(*numbers[0], 3);
  cudaGraph_t graph = capture();
  EXPECT_EQ(*numbers[0], 3) << "a capture runs nothing";
  std::size_t nodes = 0;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), done);
  EXPECT_EQ(nodes, 4u);
  cudaGraphExec_t instance = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&instance, graph, 0), done);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(cudaGraphLaunch(instance, streams[0]), done);
    // A plain call comes behind, as NCCL orders those of one communicator.
    EXPECT_EQ(sum(), NcclResult::success);
    synchronize();
  }
  EXPECT_EQ(*numbers[0], 3 * 8 * 8 * 8);
  EXPECT_EQ(*numbers[1], *numbers[0]);
  EXPECT_EQ(cudaGraphExecDestroy(instance), done);
  EXPECT_EQ(cudaGraphDestroy(graph), done);
}

TEST_F(FakeNccl, streams_of_one_group_are_of_one_capture_or_of_none) {
  ASSERT_EQ(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeRelaxed), done);
  EXPECT_NE(sum(), NcclResult::success);
  static_cast<void>(cudaGetLastError());
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(streams[0], &graph), done);
  std::size_t nodes = 1;
  EXPECT_EQ(cudaGraphGetNodes(graph, nullptr, &nodes), done);
  EXPECT_EQ(nodes, 0u);
  EXPECT_EQ(cudaGraphDestroy(graph), done);
}

}  // namespace
