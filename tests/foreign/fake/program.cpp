// A program that uses CUDA, and its driver: it has the library loaded that CUDA_INJECTION64_PATH names, and makes up what happens
// then. usage: weir_foreign_program nothing|runs|has_a_link|starts_another|is_killed|forks|names|fails
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cupti.h>

#include "fake.hpp"

static bool is_forked = false;
/// Asked by LeakSanitizer as a process ends. In a forked child it would wait for ever for the allocator's lock, if a thread had it
/// that the child has not got.
extern "C" int __lsan_is_turned_off() { return is_forked ? 1 : 0; }

namespace {

void* library(const char* variable, int flags) {
  const char* const path = std::getenv(variable);
  void* const made = path == nullptr ? nullptr : dlopen(path, flags);
  if (made == nullptr) std::exit(90);
  return made;
}
template <class F>
F* function(void* from, const char* name) {
  void* const found = dlsym(from, name);
  if (found == nullptr) std::exit(91);
  return reinterpret_cast<F*>(found);
}

/// As the driver does when it is first needed.
void init_cuda() { function<int()>(library("CUDA_INJECTION64_PATH", RTLD_NOW), "InitializeInjection")(); }

/// The library that the injected one has opened; null if it could not.
void* cupti() { return dlopen(std::getenv("WEIR_CUPTI"), RTLD_NOW | RTLD_NOLOAD); }

void add(const void* record) {
  if (void* const opened = cupti()) function<void(const void*)>(opened, "fake_cupti_add")(record);
}

/// A kernel, 1 us long, and the call that launched it; behind it a graph. CUPTI takes 3 us.
void launch(const char* name, std::uint32_t correlation) {
  CUpti_ActivityContext3 context{};
  context.kind = CUPTI_ACTIVITY_KIND_CONTEXT;
  context.contextId = 1;
  context.nullStreamId = 7;
  add(&context);
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.start = fake_cupti_start + 1000 * correlation;
  call.end = call.start + 200;
  call.threadId = static_cast<std::uint32_t>(getpid());
  call.correlationId = correlation;
  add(&call);
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = call.end + 300;
  kernel.end = kernel.start + 1000;
  kernel.contextId = 1;
  kernel.streamId = 13;
  kernel.correlationId = correlation;
  kernel.gridX = kernel.gridY = kernel.gridZ = 1;
  kernel.name = name;
  add(&kernel);
  CUpti_ActivityGraphTrace2 graph{};
  graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  graph.start = kernel.end;
  graph.end = kernel.end + 10;
  graph.contextId = 1;
  graph.streamId = 13;
  graph.correlationId = correlation + 1;
  add(&graph);
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE;
  overhead.start = call.start;
  overhead.end = overhead.start + 3000;
  add(&overhead);
}

/// Until what was recorded is in the file.
void wait_for_file(const char* word) {
  for (;;) {
    std::ifstream file(std::getenv("WEIR_CUDA_TRACE"), std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.find(word) != std::string::npos) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

int start_another(const char* self) {
  const pid_t child = fork();
  if (child == 0) {
    execl(self, self, "runs", nullptr);
    _exit(92);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 93;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "nothing") return 0;
  if (what == "names") {  // as NVTX does, before the driver is needed
    void* const injected = library("NVTX_INJECTION64_PATH", RTLD_NOW);
    if (function<int(void*)>(injected, "InitializeInjectionNvtx2")(nullptr) != 1) return 94;
    if (cupti() == nullptr || function<int()>(cupti(), "fake_cupti_nvtx_attached")() != 1) return 95;
  }
  if (what == "has_a_link") {
    library("WEIR_FAKE_DRIVER", RTLD_NOW);
    library("WEIR_FAKE_NVML", RTLD_NOW);
  }
  init_cuda();
  init_cuda();  // another library of the driver's asks again
  launch("_Z5SaxpyPfi", 1);
  std::puts("the program's output");
  if (what == "is_killed") {
    wait_for_file("Saxpy");
    std::raise(SIGKILL);
  }
  if (what == "starts_another") return start_another(argv[0]);
  if (what == "forks" && fork() == 0) {
    is_forked = true;
    std::exit(0);  // it has the parent's handlers, and none of its threads
  }
  return what == "fails" ? 5 : 0;
}
