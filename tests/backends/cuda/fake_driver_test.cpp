// The fake driver keeps the driver's rules (R...): each where it would let the backend pass if it did not.
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <weir/weir.hpp>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "support/gate.hpp"
#include "support/watchdog.hpp"

namespace {

using weir_test::eventually;

struct Double {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] *= 2; }
};

class FakeDriver : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(cudaMalloc(&memory_, 4096), cudaSuccess);
    s_ = stream();
    t_ = stream();
    e_ = event();
  }
  void TearDown() override {
    fake_cuda::settle();
    for (cudaStream_t one : streams_) EXPECT_EQ(cudaStreamDestroy(one), cudaSuccess);
    for (cudaEvent_t one : events_) EXPECT_EQ(cudaEventDestroy(one), cudaSuccess);
    EXPECT_EQ(cudaFree(memory_), cudaSuccess);
    static_cast<void>(cudaGetLastError());
  }
  cudaStream_t stream(unsigned flags = cudaStreamNonBlocking) {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, flags), cudaSuccess);
    return streams_.emplace_back(made);
  }
  cudaEvent_t event() {
    cudaEvent_t made = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), cudaSuccess);
    return events_.emplace_back(made);
  }
  cudaError_t fill(cudaStream_t stream) { return cudaMemsetAsync(memory_, 1, 4096, stream); }
  static bool done(cudaStream_t stream) { return cudaStreamQuery(stream) == cudaSuccess; }
  static cudaError_t begin(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed) {
    return cudaStreamBeginCapture(stream, mode);
  }
  static cudaError_t end(cudaStream_t stream) {
    cudaGraph_t graph = nullptr;
    const cudaError_t answer = cudaStreamEndCapture(stream, &graph);
    EXPECT_EQ(graph != nullptr, answer == cudaSuccess);
    if (graph != nullptr) {
      EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
    }
    return answer;
  }
  /// From its beginning until another round of the host's calls it does not return.
  template <class Call>
  void expect_waits(const char* name, fake_cuda::Pause*& pause, const Call& call) {
    const std::uint64_t before = fake_cuda::calls(name);
    std::atomic<bool> returned{false};
    std::thread caller([&] {
      call();
      returned = true;
    });
    EXPECT_TRUE(eventually([&] { return fake_cuda::calls(name) > before; }));
    for (int i = 0; i < 200 && !returned; ++i) {
      EXPECT_TRUE(done(t_));
      std::this_thread::yield();
    }
    EXPECT_FALSE(returned) << name << " did not wait";
    delete std::exchange(pause, nullptr);
    caller.join();
  }

  void* memory_ = nullptr;
  cudaStream_t s_ = nullptr;
  cudaStream_t t_ = nullptr;
  cudaEvent_t e_ = nullptr;
  std::vector<cudaStream_t> streams_;
  std::vector<cudaEvent_t> events_;
};

TEST_F(FakeDriver, kernels_and_copies_of_the_backend_run) {
  weir::Stream stream(weir::devices("cuda").at(0));
  std::vector<int> host(1000, 21);
  auto x = weir::empty<int>(stream, host.size());
  weir::copy(stream, x, host);
  const std::uint64_t before = fake_cuda::calls("cuLaunchKernel");
  weir::launch(stream, x.size(), Double{}, weir::inout(x));
  weir::copy(stream, host, x);
  stream.synchronize();
  for (const int value : host) ASSERT_EQ(value, 42);
  EXPECT_EQ(fake_cuda::calls("cuLaunchKernel"), before + 1);
}

TEST_F(FakeDriver, a_call_fails_when_it_is_told_to) {
  fake_cuda::fail_call("cudaEventRecord", 2, cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(e_, s_), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  fake_cuda::fail_nothing();
}

TEST_F(FakeDriver, what_lives_is_counted) {
  const fake_cuda::Outstanding before = fake_cuda::outstanding();
  void* block = nullptr;
  void* pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&block, 1000), cudaSuccess);
  ASSERT_EQ(cudaHostAlloc(&pinned, 1000, cudaHostAllocPortable), cudaSuccess);
  stream();
  EXPECT_EQ(fake_cuda::outstanding().device_blocks, before.device_blocks + 1);
  EXPECT_EQ(fake_cuda::outstanding().device_bytes, before.device_bytes + 1000);
  EXPECT_EQ(fake_cuda::outstanding().pinned_blocks, before.pinned_blocks + 1);
  EXPECT_EQ(fake_cuda::outstanding().streams, before.streams + 1);
  EXPECT_EQ(cudaFree(block), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
  EXPECT_EQ(fake_cuda::outstanding().pinned_blocks, before.pinned_blocks);
}

TEST_F(FakeDriver, R3_R214_a_full_stream_waits_and_others_create_nothing_meanwhile) {
  auto* pause = new fake_cuda::Pause(0, s_);
  std::atomic<int> accepted{0};
  std::thread filler([&] {
    for (int i = 0; i < 1022; ++i) {
      EXPECT_EQ(fill(s_), cudaSuccess);
      ++accepted;
    }
  });
  ASSERT_TRUE(eventually([] { return fake_cuda::waiting_for_room() == 1; }));
  EXPECT_EQ(accepted, 1021);
  EXPECT_EQ(fill(t_), cudaSuccess);  // R208
  EXPECT_EQ(cudaStreamQuery(s_), cudaErrorNotReady);
  ASSERT_TRUE(eventually([&] { return done(t_); }));
  expect_waits("cudaEventCreateWithFlags", pause, [&] { event(); });
  filler.join();
}

TEST_F(FakeDriver, R213_pairs_of_a_wait_and_a_host_function_have_little_room) {
  auto* pause = new fake_cuda::Pause(0, s_);
  ASSERT_EQ(fill(s_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  const auto nothing = [](void*) {};
  cudaStream_t u = stream();
  std::atomic<int> pairs{0};
  std::thread waiter([&] {
    for (int i = 0; i < 57; ++i) {
      EXPECT_EQ(cudaStreamWaitEvent(u, e_, cudaEventWaitDefault), cudaSuccess);
      EXPECT_EQ(cudaLaunchHostFunc(u, nothing, nullptr), cudaSuccess);
      ++pairs;
    }
  });
  ASSERT_TRUE(eventually([] { return fake_cuda::waiting_for_room() == 1; }));
  EXPECT_EQ(pairs, 56);
  delete pause;
  waiter.join();
}

TEST_F(FakeDriver, R58_pinned_memory_is_freed_when_all_kernels_have_ended) {
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 1000, cudaHostAllocPortable), cudaSuccess);
  auto* pause = new fake_cuda::Pause(0, s_);
  ASSERT_EQ(fill(s_), cudaSuccess);
  expect_waits("cudaFreeHost", pause, [&] { EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess); });
}

TEST_F(FakeDriver, R18_to_R20_the_legacy_stream_and_blocking_streams_wait_for_each_other) {
  cudaStream_t blocking = stream(cudaStreamDefault);
  cudaStream_t later = stream(cudaStreamDefault);
  {
    const fake_cuda::Pause pause(0, blocking);
    ASSERT_EQ(fill(blocking), cudaSuccess);
    ASSERT_EQ(fill(cudaStreamLegacy), cudaSuccess);
    ASSERT_EQ(fill(later), cudaSuccess);
    ASSERT_EQ(fill(s_), cudaSuccess);
    ASSERT_TRUE(eventually([&] { return done(s_); }));
    EXPECT_FALSE(done(cudaStreamLegacy));
    EXPECT_FALSE(done(later));
  }
  EXPECT_TRUE(eventually([&] { return done(later); }));
}

TEST_F(FakeDriver, R88_host_functions_call_nothing) {
  struct Answers {
    cudaStream_t stream;
    cudaEvent_t event;
    cudaError_t query = cudaSuccess;
    cudaError_t device = cudaSuccess;
    cudaError_t about_event = cudaErrorUnknown;
  } answers{t_, e_};
  const auto ask = [](void* data) {
    auto& all = *static_cast<Answers*>(data);
    int device = 0;
    all.query = cudaStreamQuery(all.stream);
    all.device = cudaSetDevice(device);
    all.about_event = cudaEventQuery(all.event);
  };
  ASSERT_EQ(cudaLaunchHostFunc(s_, ask, &answers), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(s_), cudaSuccess);
  EXPECT_EQ(answers.query, cudaErrorNotPermitted);
  EXPECT_EQ(answers.device, cudaErrorNotPermitted);
  EXPECT_EQ(answers.about_event, cudaSuccess);
}

TEST_F(FakeDriver, R211_calls_of_another_thread_on_a_captured_stream_are_violations) {
  const fake_cuda::RecordViolations violations;
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(fill(s_), cudaSuccess);
  std::thread([&] {
    static_cast<void>(fill(s_));
    static_cast<void>(cudaEventRecord(e_, s_));
    static_cast<void>(cudaStreamQuery(s_));
    EXPECT_EQ(cudaStreamQuery(t_), cudaSuccess);
  }).join();
  const std::vector<std::string> all = violations.all();
  ASSERT_GE(all.size(), 3u);
  EXPECT_EQ(all[0].find("R211: cudaMemsetAsync of stream "), 0u) << all[0];
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeDriver, R211_calls_of_another_thread_on_an_event_of_a_capture_are_violations) {
  const fake_cuda::RecordViolations violations;
  const auto make = [] {
    cudaEvent_t event = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), cudaSuccess);
    return event;
  };
  const cudaEvent_t again = make();
  const cudaEvent_t gone = make();
  ASSERT_EQ(begin(s_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(again, s_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(gone, s_), cudaSuccess);
  std::thread([&] {
    static_cast<void>(cudaEventRecord(again, t_));
    static_cast<void>(cudaEventRecord(again, t_));
    static_cast<void>(cudaEventDestroy(gone));
  }).join();
  const std::vector<std::string> all = violations.all();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].find("R211: cudaEventRecord of an event "), 0u) << all[0];
  EXPECT_EQ(all[1].find("R211: cudaEventDestroy of an event "), 0u) << all[1];
  EXPECT_EQ(end(s_), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(again), cudaSuccess);
}

TEST_F(FakeDriver, R212_a_device_is_not_synchronised_beside_a_capture) {
  const fake_cuda::RecordViolations violations;
  ASSERT_EQ(begin(s_), cudaSuccess);
  std::thread([] { EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported); }).join();
  ASSERT_EQ(violations.all().size(), 1u);
  EXPECT_EQ(violations.all()[0].find("R212: cudaDeviceSynchronize"), 0u);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeDriver, R114_to_R117_what_a_capture_refuses_its_own_thread) {
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(fill(s_), cudaErrorStreamCaptureInvalidated);  // R124
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(s_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(t_), cudaSuccess);
  EXPECT_EQ(end(s_), cudaSuccess);
  ASSERT_EQ(begin(s_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(t_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(t_, e_, cudaEventWaitDefault), cudaSuccess);
  EXPECT_EQ(end(t_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeDriver, R120_R121_a_global_capture_refuses_unsafe_calls_of_every_thread) {
  void* data = nullptr;
  ASSERT_EQ(begin(s_, cudaStreamCaptureModeGlobal), cudaSuccess);
  std::thread([&] { EXPECT_EQ(cudaMalloc(&data, 100), cudaErrorStreamCaptureUnsupported); }).join();
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([&] { EXPECT_EQ(cudaMalloc(&data, 100), cudaSuccess); }).join();
  EXPECT_EQ(end(s_), cudaSuccess);
  EXPECT_EQ(cudaFree(data), cudaSuccess);
}

TEST_F(FakeDriver, R118_R119_events_of_captures) {
  ASSERT_EQ(begin(s_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(e_), cudaErrorCapturedEvent);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaEventQuery(e_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(e_), cudaSuccess);
}

TEST_F(FakeDriver, R125_R126_the_legacy_stream_beside_captures) {
  cudaStream_t blocking = stream(cudaStreamDefault);
  ASSERT_EQ(begin(blocking), cudaSuccess);
  EXPECT_EQ(fill(cudaStreamLegacy), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(end(blocking), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(fill(cudaStreamLegacy), cudaSuccess);
  EXPECT_EQ(end(s_), cudaSuccess);
}

TEST_F(FakeDriver, R130_to_R133_forks_joins_and_ends) {
  ASSERT_EQ(begin(s_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(t_, e_, cudaEventWaitDefault), cudaSuccess);
  ASSERT_EQ(fill(t_), cudaSuccess);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureUnjoined);
  cudaEvent_t outside = event();
  ASSERT_EQ(cudaEventRecord(outside, s_), cudaSuccess);
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(s_, outside, cudaEventWaitDefault), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_), cudaSuccess);
  ASSERT_EQ(begin(t_), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(e_, s_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(t_, e_, cudaEventWaitDefault), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(t_), cudaErrorStreamCaptureInvalidated);
  ASSERT_EQ(begin(s_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  std::thread([&] { EXPECT_EQ(end(s_), cudaErrorStreamCaptureWrongThread); }).join();
}

TEST_F(FakeDriver, R137_R142_R215_graphs_with_conditional_nodes) {
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaGraphCreate(&graph, 0), cudaSuccess);
  cudaGraphNodeParams parameters{};
  parameters.type = cudaGraphNodeTypeConditional;
  ASSERT_EQ(cudaGraphConditionalHandleCreate(&parameters.conditional.handle, graph, 0, 0), cudaSuccess);
  parameters.conditional.type = cudaGraphCondTypeIf;
  parameters.conditional.size = 1;
  cudaGraphNode_t node = nullptr;
#if CUDART_VERSION >= 13000
  ASSERT_EQ(cudaGraphAddNode(&node, graph, nullptr, nullptr, 0, &parameters), cudaSuccess);
#else
  ASSERT_EQ(cudaGraphAddNode(&node, graph, nullptr, 0, &parameters), cudaSuccess);
#endif
  cudaGraphExec_t instance = nullptr;
  cudaGraphExec_t second = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
  EXPECT_EQ(cudaGraphInstantiate(&second, graph, 0), cudaErrorNotSupported);
  ASSERT_EQ(begin(s_), cudaSuccess);
  EXPECT_EQ(cudaGraphLaunch(instance, s_), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(s_), cudaErrorStreamCaptureInvalidated);
  auto* pause = new fake_cuda::Pause(0, s_);
  ASSERT_EQ(cudaGraphLaunch(instance, s_), cudaSuccess);
  expect_waits("cudaGraphExecDestroy", pause, [&] { EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess); });
  // For all that is in the device's streams, too: seen on an H200.
  ASSERT_EQ(cudaGraphInstantiate(&instance, graph, 0), cudaSuccess);
  const cudaStream_t other = stream();
  pause = new fake_cuda::Pause(0, other);
  ASSERT_EQ(fill(other), cudaSuccess);
  std::thread destroyer([&] { EXPECT_EQ(cudaGraphExecDestroy(instance), cudaSuccess); });
  EXPECT_TRUE(eventually([] { return fake_cuda::waiting_to_destroy() == 1; }));
  expect_waits("cudaEventRecord", pause, [&] { EXPECT_EQ(cudaEventRecord(e_, s_), cudaSuccess); });
  destroyer.join();
  EXPECT_EQ(cudaGraphDestroy(graph), cudaSuccess);
}

TEST_F(FakeDriver, R6_R169_R170_last_errors) {
  const fake_cuda::Pause pause(0, s_);
  ASSERT_EQ(fill(s_), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(s_), cudaErrorNotReady);
  EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  EXPECT_EQ(cudaSetDevice(99), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST_F(FakeDriver, R96_R97_freed_memory_is_the_streams_own_at_once_and_nobody_elses) {
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  cudaMemPool_t pool = nullptr;
  ASSERT_EQ(cudaMemPoolCreate(&pool, &props), cudaSuccess);
  void* first = nullptr;
  void* again = nullptr;
  void* other = nullptr;
  {
    const fake_cuda::Pause pause(0, s_);
    ASSERT_EQ(cudaMallocFromPoolAsync(&first, 4096, pool, s_), cudaSuccess);
    ASSERT_EQ(cudaFreeAsync(first, s_), cudaSuccess);
    EXPECT_EQ(cudaFreeAsync(first, s_), cudaErrorInvalidValue);  // R100
    ASSERT_EQ(cudaMallocFromPoolAsync(&other, 4096, pool, t_), cudaSuccess);
    EXPECT_NE(other, first);
    ASSERT_EQ(cudaMallocFromPoolAsync(&again, 4096, pool, s_), cudaSuccess);
    EXPECT_EQ(again, first);
  }
  EXPECT_EQ(cudaFreeAsync(again, s_), cudaSuccess);
  EXPECT_EQ(cudaFreeAsync(other, t_), cudaSuccess);
  fake_cuda::settle();
  EXPECT_EQ(cudaMemPoolDestroy(pool), cudaSuccess);
}

}  // namespace
