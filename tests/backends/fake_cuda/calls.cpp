// What every call begins with: counted, failed by a test, refused inside host functions and after a fault.
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "backends/fake_cuda/fake_cuda.hpp"
#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

struct Counter {
  std::size_t number = 0;
  std::atomic<std::uint64_t> made{0};
  std::atomic<std::uint64_t> returned{0};
  std::atomic<std::uint64_t> fails_at{0};
  std::atomic<int> error{0};
  std::atomic<int> holds{0};
  std::set<std::thread::id> held;  // under the counters' mutex
};

namespace {

struct Counters {
  std::mutex mutex;
  std::map<std::string, Counter> all;
};
Counters& counters() {
  static auto& instance = *new Counters;
  return instance;
}
Counter& counter_of(const std::string& name) {
  const std::lock_guard guard(counters().mutex);
  const auto [found, added] = counters().all.try_emplace(name);
  if (added) found->second.number = counters().all.size();
  return found->second;
}

/// By the number of the call; without a destructor, since threads call at their end.
thread_local std::array<std::uint64_t, 400> made_here{};

pid_t process = 0;
thread_local cudaError_t last_error = cudaSuccess;

/// WEIR_FAKE_CUDA_OWN_CONTEXT: the process's first thread has made a context of its own before anything else.
CUcontext first_context() {
  const bool own = std::getenv("WEIR_FAKE_CUDA_OWN_CONTEXT") != nullptr && gettid() == getpid();
  return own ? reinterpret_cast<CUcontext>(&last_error) : nullptr;
}

World& start() {
  auto& made = *new World;
  process = getpid();
  const char* asked = std::getenv("WEIR_FAKE_CUDA_DEVICES");
  const int count = asked != nullptr ? std::atoi(asked) : 2;
  for (int i = 0; i < count; ++i) {
    auto device = std::make_unique<Device>();
    device->legacy = std::make_shared<CUstream_st>();
    device->legacy->device = i;
    device->legacy->legacy = true;
    device->legacy->id = made.next_id++;
    made.devices.push_back(std::move(device));
  }
  return made;
}

}  // namespace

World& world() {
  static World& instance = start();
  return instance;
}

int& current_device() {
  static thread_local int device = 0;
  return device;
}
bool& on_host_thread() {
  static thread_local bool inside = false;
  return inside;
}

CUcontext& foreign_context() {
  static thread_local CUcontext context = first_context();
  return context;
}

bool& has_context() {
  static thread_local bool any = false;
  return any;
}

namespace {
void wait_while_held(Counter& counter) {
  const Hidden hidden;
  {
    const std::lock_guard guard(counters().mutex);
    counter.held.insert(std::this_thread::get_id());
  }
  while (counter.holds.load(std::memory_order_relaxed) > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  const std::lock_guard guard(counters().mutex);
  counter.held.erase(std::this_thread::get_id());
}
}  // namespace

Site::Site(const char* name) : name_(name) {
  const Hidden hidden;
  counter_ = &counter_of(name);
}

int Site::enter() {
  const std::uint64_t number = counter_->made.fetch_add(1, std::memory_order_relaxed) + 1;
  ++made_here.at(counter_->number);
  if (counter_->holds.load(std::memory_order_relaxed) > 0) wait_while_held(*counter_);
  return number == counter_->fails_at.load(std::memory_order_relaxed) ? counter_->error.load(std::memory_order_relaxed)
                                                                      : 0;
}

void Site::leave() noexcept { counter_->returned.fetch_add(1, std::memory_order_relaxed); }

cudaError_t refuse_before(Site& site, unsigned rules) {
  if (const int asked = site.enter()) return static_cast<cudaError_t>(asked);
  World& all = world();
  if (getpid() != process) return cudaErrorInitializationError;  // a forked child has no driver
  if (on_host_thread() && (rules & anywhere) == 0) return cudaErrorNotPermitted;
  if ((rules & after_failure) != 0) return cudaSuccess;
  if (foreign_context() != nullptr) return cudaErrorInvalidResourceHandle;
  if ((rules & of_driver) == 0) has_context() = true;
  const std::lock_guard guard(all.mutex);
  return static_cast<cudaError_t>(all.failure);
}

cudaError_t set_last(cudaError_t error, unsigned rules) {
  if (error != cudaSuccess && error != cudaErrorNotReady && (rules & of_driver) == 0) last_error = error;
  return error;
}

void violate(Call& call, const std::string& rule, const std::string& what) {
  const std::string text = rule + ": " + call.name + " " + what;
  World& all = world();
  if (all.record_violations) {
    all.violations.push_back(text);
    return;
  }
  std::fprintf(stderr, "fake CUDA driver: a call that crashes in the driver: %s\n", text.c_str());
  std::abort();
}

std::uint64_t calls(const std::string& name) {
  const Hidden hidden;
  return counter_of(name).made.load(std::memory_order_relaxed);
}
std::uint64_t calls_here(const std::string& name) {
  const Hidden hidden;
  return made_here.at(counter_of(name).number);
}
std::uint64_t returned_calls(const std::string& name) {
  const Hidden hidden;
  return counter_of(name).returned.load(std::memory_order_relaxed);
}
void fail_call(const std::string& name, std::uint64_t n, int error) {
  const Hidden hidden;
  Counter& counter = counter_of(name);
  counter.error.store(error);
  counter.fails_at.store(counter.made.load() + n);
}
void fail_nothing() {
  const Hidden hidden;
  const std::lock_guard guard(counters().mutex);
  for (auto& [name, counter] : counters().all) counter.fails_at.store(0);
}

Pause::Pause(int device) : Pause(device, nullptr) {}
Pause::Pause(int device, CUstream_st* stream) : device_(device), stream_(stream) {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  ++(stream_ != nullptr ? stream_->paused : world().devices.at(static_cast<std::size_t>(device_))->paused);
}
Pause::~Pause() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  --(stream_ != nullptr ? stream_->paused : world().devices.at(static_cast<std::size_t>(device_))->paused);
  unpark();
}

OutOfReach::OutOfReach(int device, int peer) : device_(device), peer_(peer) {
  const std::lock_guard guard(world().mutex);
  world().devices.at(static_cast<std::size_t>(device_))->out_of_reach.insert(peer_);
}
OutOfReach::~OutOfReach() {
  const std::lock_guard guard(world().mutex);
  world().devices.at(static_cast<std::size_t>(device_))->out_of_reach.erase(peer_);
}

HoldCalls::HoldCalls(const std::string& name) : name_(name) {
  const Hidden hidden;
  ++counter_of(name_).holds;
}
HoldCalls::~HoldCalls() {
  const Hidden hidden;
  --counter_of(name_).holds;
}
bool HoldCalls::holds(std::thread::id thread) const {
  const Hidden hidden;
  const Counter& counter = counter_of(name_);
  const std::lock_guard guard(counters().mutex);
  return counter.held.count(thread) != 0;
}

RecordViolations::RecordViolations() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  world().record_violations = true;
  world().violations.clear();
}
RecordViolations::~RecordViolations() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  world().record_violations = false;
}
std::vector<std::string> RecordViolations::all() const {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  return world().violations;
}

Outstanding outstanding() {
  const Hidden hidden;
  World& all = world();
  const std::lock_guard guard(all.mutex);
  Outstanding now;
  for (const auto& [address, block] : all.blocks) {
    if (block.type == cudaMemoryTypeDevice) {
      ++now.device_blocks;
      now.device_bytes += block.bytes;
    } else {
      ++(block.registered ? now.registered : now.pinned_blocks);
    }
  }
  now.streams = all.streams.size();
  now.events = all.events.size();
  for (const CUgraph_st* graph : all.graphs) now.graphs += graph->owner == nullptr ? 1 : 0;
  now.instances = all.instances.size();
  now.commands = all.pending;
  return now;
}

std::size_t waiting_to_destroy() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  return world().destroyers;
}

std::size_t waiting_for_room() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  return world().room_waiters;
}

void settle() {
  std::vector<OpRef> seen;
  {
    const Hidden hidden;
    Call call{"settle", std::unique_lock<std::mutex>(world().mutex), nullptr, {}};
    for (const OpRef& op : last_ops(-1)) wait_for(call, op);
    seen = std::move(call.seen);
  }
  for (const OpRef& op : seen) acquire(op.get());
  const Hidden hidden;
  seen.clear();
}

void break_device(int error) {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  break_world(error);
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t now = last_error;
  last_error = cudaSuccess;
  return now;
}
cudaError_t cudaPeekAtLastError() { return last_error; }

#define FAKE_ERRORS(X)                    \
  X(cudaSuccess)                          \
  X(cudaErrorInvalidValue)                \
  X(cudaErrorMemoryAllocation)            \
  X(cudaErrorInitializationError)         \
  X(cudaErrorCudartUnloading)             \
  X(cudaErrorInvalidDevice)               \
  X(cudaErrorInvalidDeviceFunction)       \
  X(cudaErrorInvalidResourceHandle)       \
  X(cudaErrorInvalidMemcpyDirection)      \
  X(cudaErrorNotReady)                    \
  X(cudaErrorNotSupported)                \
  X(cudaErrorNotPermitted)                \
  X(cudaErrorIllegalAddress)              \
  X(cudaErrorIllegalState)                \
  X(cudaErrorLaunchFailure)               \
  X(cudaErrorDevicesUnavailable)          \
  X(cudaErrorUnknown)                     \
  X(cudaErrorHostMemoryAlreadyRegistered) \
  X(cudaErrorHostMemoryNotRegistered)     \
  X(cudaErrorPeerAccessAlreadyEnabled)    \
  X(cudaErrorPeerAccessNotEnabled)        \
  X(cudaErrorPeerAccessUnsupported)       \
  X(cudaErrorStreamCaptureUnsupported)    \
  X(cudaErrorStreamCaptureInvalidated)    \
  X(cudaErrorStreamCaptureMerge)          \
  X(cudaErrorStreamCaptureUnmatched)      \
  X(cudaErrorStreamCaptureUnjoined)       \
  X(cudaErrorStreamCaptureIsolation)      \
  X(cudaErrorStreamCaptureImplicit)       \
  X(cudaErrorStreamCaptureWrongThread)    \
  X(cudaErrorCapturedEvent)               \
  X(cudaErrorGraphExecUpdateFailure)

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define FAKE_NAME(name) \
  case name: return #name;
    FAKE_ERRORS(FAKE_NAME)
#undef FAKE_NAME
    default: return "unrecognized error code";
  }
}
const char* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the fake driver's";
}

}  // extern "C"
