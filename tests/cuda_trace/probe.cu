// A CUDA program that knows nothing of Weir, with what a timeline must show: it prints, as one JSON object, how long its kernels took
// by events, and what a launch and a graph took its thread. usage: probe [launches [LIBCUPTI]]: with that library's records of
// kernels, and of calls, which nobody reads.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cuda_runtime.h>
#include <cupti.h>
#include <dlfcn.h>
#include <nvtx3/nvToolsExt.h>

#define CHECK(call)                                                                        \
  do {                                                                                     \
    const cudaError_t status = (call);                                                     \
    if (status != cudaSuccess) {                                                           \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
      std::exit(1);                                                                        \
    }                                                                                      \
  } while (0)

__global__ void spin(long long ns) {
  long long begin, now;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
  do {
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
  } while (now - begin < ns);
}
__global__ void scale(float* x, std::size_t n) {
  for (std::size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += std::size_t{gridDim.x} * blockDim.x)
    x[i] *= 2;
}
__global__ void nothing() {}

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;
static void CUPTIAPI wanted(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_bytes));
  *size = buffer_bytes;
  *most_records = 0;
}
static void CUPTIAPI filled(CUcontext, std::uint32_t, std::uint8_t* buffer, std::size_t, std::size_t) {
  std::free(buffer);
}
/// CUPTI alone, as a tool has it that needs the calls, too; graphs are told of as a whole.
static void record_by(const char* path) {
  void* const library = dlopen(path, RTLD_NOW);
  const auto take = library ? reinterpret_cast<decltype(&cuptiActivityRegisterCallbacks)>(
                                  dlsym(library, "cuptiActivityRegisterCallbacks"))
                            : nullptr;
  const auto enable =
      library ? reinterpret_cast<decltype(&cuptiActivityEnable)>(dlsym(library, "cuptiActivityEnable")) : nullptr;
  bool on = take && enable && take(wanted, filled) == CUPTI_SUCCESS;
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_RUNTIME,
                                        CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_ACTIVITY_KIND_GRAPH_TRACE}) {
    on = on && enable(kind) == CUPTI_SUCCESS;
  }
  if (on) return;
  std::fprintf(stderr, "%s records nothing\n", path);
  std::exit(1);
}

using Clock = std::chrono::steady_clock;
static double us_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 10000;
  if (argc > 2) record_by(argv[2]);
  constexpr std::size_t n = std::size_t{1} << 24;
  cudaStream_t loads, work;
  CHECK(cudaStreamCreateWithFlags(&loads, cudaStreamNonBlocking));
  CHECK(cudaStreamCreate(&work));
  float *device, *pinned;
  CHECK(cudaMalloc(&device, n * sizeof(float)));
  CHECK(cudaMallocHost(&pinned, n * sizeof(float)));
  std::vector<float> pageable(n);
  cudaEvent_t loaded, begin, end;
  CHECK(cudaEventCreateWithFlags(&loaded, cudaEventDisableTiming));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&end));
  nothing<<<1, 32, 0, work>>>();
  scale<<<1, 32, 0, work>>>(device, 1);
  CHECK(cudaDeviceSynchronize());

  nvtxRangePushA("step");
  CHECK(cudaMemcpyAsync(device, pinned, n * sizeof(float), cudaMemcpyHostToDevice, loads));
  CHECK(cudaEventRecord(loaded, loads));
  CHECK(cudaStreamWaitEvent(work, loaded, 0));
  scale<<<1024, 256, 0, work>>>(device, n);
  CHECK(cudaMemcpyAsync(pinned, device, n * sizeof(float), cudaMemcpyDeviceToHost, work));
  CHECK(cudaStreamSynchronize(work));
  nvtxRangePop();
  CHECK(cudaMemcpy(pageable.data(), device, n * sizeof(float), cudaMemcpyDeviceToHost));
  CHECK(cudaMemset(device, 0, n * sizeof(float)));
  spin<<<1, 1>>>(300000);  // the default stream
  spin<<<1, 1, 0, work>>>(300000);
  CHECK(cudaDeviceSynchronize());

  constexpr int timed = 5;
  float sum = 0;
  for (int i = 0; i < timed; ++i) {
    CHECK(cudaEventRecord(begin, work));
    spin<<<1, 2, 0, work>>>(5000000);
    CHECK(cudaEventRecord(end, work));
    CHECK(cudaEventSynchronize(end));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, begin, end));
    sum += ms;
  }

  float* scratch;
  CHECK(cudaMalloc(&scratch, 1 << 20));
  spin<<<1, 1, 0, work>>>(2000000);
  CHECK(cudaFree(scratch));  // waits for it

  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(work, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < 100; ++i) nothing<<<1, 32, 0, work>>>();
  CHECK(cudaStreamEndCapture(work, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphLaunch(executable, work));
  CHECK(cudaStreamSynchronize(work));
  Clock::time_point since = Clock::now();
  constexpr int replays = 50;
  for (int i = 0; i < replays; ++i) {
    CHECK(cudaGraphLaunch(executable, work));
    CHECK(cudaStreamSynchronize(work));
  }
  const double graph_us = us_since(since) / replays;
  since = Clock::now();
  for (int i = 0; i < launches; ++i) {
    nothing<<<1, 32, 0, work>>>();
    if (i % 500 == 499) CHECK(cudaStreamSynchronize(work));
  }
  CHECK(cudaStreamSynchronize(work));
  std::printf("{\"timed\": %d, \"events_ms\": %.6f, \"launch_us\": %.3f, \"graph_us\": %.2f}\n", timed, sum,
              us_since(since) / launches, graph_us);
  return 0;
}
