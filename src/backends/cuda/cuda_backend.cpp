// The CUDA backend: the seam's calls, handed to devices, queues, events and pools.
#include "backends/cuda/cuda_backend.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <weir/dlpack.hpp>

#include "backend.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "failure_reports.hpp"

namespace weir::cuda {

namespace {

CudaQueue& as_cuda(Queue& queue) { return static_cast<CudaQueue&>(queue); }
CudaPool& as_cuda(detail::PoolState& pool) { return static_cast<CudaPool&>(pool); }
CudaEvent& as_cuda(detail::EventState& event) { return static_cast<CudaEvent&>(event); }

class CudaBackend final : public Backend {
 public:
  static CudaBackend& instance() {
    static auto& backend = *new CudaBackend;  // outlives every static object of the program
    return backend;
  }

  std::string_view name() const override { return "cuda"; }
  int dlpack_type() const override { return dlpack::kDLCUDA; }
  bool runs_global_functions() const override { return true; }
  int device_count() override {
    const int count = driver().device_count;
    std::call_once(made_, [&] {
      for (int i = 0; i < count; ++i) devices_.emplace_back(*this, i);
    });
    return count;
  }
  std::string why_absent() override { return driver().why_absent; }
  DeviceProperties properties(int device) override { return at(device).properties(); }
  void synchronize(int device, const char* operation, SourceLocation where) override {
    at(device).synchronize(operation, where);
  }
  void drain(int device) noexcept override { at(device).drain(); }

  Queue& open_queue(int device, const QueueOptions& options) override { return at(device).open_queue(options); }
  Queue* wrap_queue(int device, void* native, const QueueOptions& options) override {
    return &at(device).wrap_queue(static_cast<cudaStream_t>(native), options);
  }

  detail::EventState* open_event(int device, bool timed) override { return &at(device).open_event(timed); }
  void close_event(detail::EventState* event) noexcept override { at(event->device).close_event(as_cuda(*event)); }
  bool event_done(detail::EventState& event) override;
  void synchronize_event(detail::EventState& event, const char* operation, SourceLocation where) override;
  Milliseconds elapsed(detail::EventState& start, detail::EventState& end, SourceLocation where) override;

  detail::PoolState* default_pool(int device) override { return &at(device).default_pool(); }
  detail::PoolState* open_pool(int device, const PoolOptions& options) override {
    return &at(device).open_pool(options);
  }
  void close_pool(detail::PoolState* pool) noexcept override { at(pool->device).close_pool(as_cuda(*pool)); }
  void* allocate(detail::PoolState& pool, Queue& queue, std::size_t bytes, const char* operation,
                 SourceLocation where) override {
    return as_cuda(pool).allocate(as_cuda(queue), bytes, operation, where);
  }
  void release(detail::PoolState& pool, Queue& queue, bool open, StreamId owner, detail::QueuePlaces& others,
               void* data, SourceLocation where) override;
  void trim(detail::PoolState& pool, std::size_t keep) override { as_cuda(pool).trim(keep); }
  std::size_t release_threshold(detail::PoolState& pool) override { return as_cuda(pool).threshold(); }
  void set_release_threshold(detail::PoolState& pool, std::size_t bytes) override {
    as_cuda(pool).set_threshold(bytes);
  }
  PoolStatistics statistics(detail::PoolState& pool) override { return as_cuda(pool).statistics(); }
  void reset_high_marks(detail::PoolState& pool) override { as_cuda(pool).reset_high_marks(); }

  void* allocate_pinned(std::size_t bytes, const char* operation, SourceLocation where) override {
    return PinnedMemory::instance().take(bytes, operation, where);
  }
  void release_pinned(void* data) noexcept override { PinnedMemory::instance().give(data); }
  void pin(const void* data, std::size_t bytes, SourceLocation where) override {
    PinnedMemory::instance().pin(data, bytes, where);
  }
  void unpin(const void* data, SourceLocation where) override { PinnedMemory::instance().unpin(data, where); }
  std::optional<PointerInfo> locate(const void* data) override;

  bool event_passed(detail::EventState& event) override {
    // With a queue, something before the record may have failed, or may yet.
    return as_cuda(event).queue.load(std::memory_order_acquire) == nullptr && event_done(event);
  }
  void signal_after(detail::EventState& event, std::unique_ptr<detail::Signal>& signal, SourceLocation where) override;
  void signal_after(Queue& queue, StreamId owner, std::unique_ptr<detail::Signal>& signal) override;
  bool event_recorded(detail::EventState& event) override {
    return as_cuda(event).recorded.load(std::memory_order_acquire);
  }
  detail::GraphExecutable* instantiate(int device, const detail::GraphForm& form, void* driver_graph,
                                       SourceLocation where) override {
    std::unique_ptr<DriverGraph> graph(static_cast<DriverGraph*>(driver_graph));
    return new CudaGraph(at(device), form, std::move(graph), where);
  }

  bool can_access_peer(int from, int to) override { return at(from).can_access(to); }
  bool peer_access(int from, int to) override { return at(from).peer_access(to); }
  void set_peer_access(int from, int to, bool enabled) override { at(from).set_peer_access(at(to), enabled); }

 private:
  CudaDevice& at(int device) { return devices_[static_cast<std::size_t>(device)]; }

  bool in_use();

  std::once_flag made_;
  std::atomic<bool> in_use_{false};
  std::deque<CudaDevice> devices_;
};

bool CudaBackend::event_done(detail::EventState& state) {
  CudaEvent& event = as_cuda(state);
  if (!event.recorded.load(std::memory_order_acquire)) return true;
  const DeviceScope scope(event.device);
  const cudaError_t answer = cudaEventQuery(event.native.load(std::memory_order_acquire));
  if (answer == cudaErrorNotReady) return false;
  check(answer, "weir::Event::done", at(event.device).name(), {});
  return true;
}

void CudaBackend::synchronize_event(detail::EventState& state, const char* operation, SourceLocation where) {
  CudaEvent& event = as_cuda(state);
  if (!event.recorded.load(std::memory_order_acquire)) return;
  const DeviceScope scope(event.device);
  check(cudaEventSynchronize(event.native.load(std::memory_order_acquire)), operation, at(event.device).name(), where);
  if (const auto source = event.failure_place(); source.queue != nullptr) {
    // It throws, and leaves the failure to the stream.
    const auto error = source.queue->failures().failure_at(source.place);
    if (error) detail::throw_seen(*error);
  }
}

void CudaBackend::signal_after(detail::EventState& state, std::unique_ptr<detail::Signal>& signal,
                               SourceLocation where) {
  CudaEvent& event = as_cuda(state);
  if (event.recorded.load(std::memory_order_acquire)) {
    cuda::signal_after(event, signal, where);
  } else {
    std::exchange(signal, nullptr)->give(nullptr);
  }
}

void CudaBackend::release(detail::PoolState& pool, Queue& queue, bool open, StreamId owner, detail::QueuePlaces& others,
                          void* data, SourceLocation where) {
  DeadBlock block;
  block.data = data;
  block.queue = &as_cuda(queue);
  block.owner = owner;
  block.open = open && others.empty();
  block.others = std::move(others);
  as_cuda(pool).release(std::move(block), where);
}

void CudaBackend::signal_after(Queue& queue, StreamId owner, std::unique_ptr<detail::Signal>& signal) {
  cuda::signal_after(as_cuda(queue), owner, signal);
}

Milliseconds CudaBackend::elapsed(detail::EventState& start, detail::EventState& end, SourceLocation where) {
  constexpr const char* operation = "weir::elapsed";
  CudaEvent& a = as_cuda(start);
  CudaEvent& b = as_cuda(end);
  const bool a_recorded = a.recorded.load(std::memory_order_acquire);
  if (!a_recorded || !b.recorded.load(std::memory_order_acquire)) {
    throw Error(Errc::invalid_handle, operation, a_recorded ? "the end event" : "the start event",
                "it was never recorded", where);
  }
  const bool a_done = event_done(a);
  if (!a_done || !event_done(b)) {
    throw Error(Errc::not_ready, operation, a_done ? "the end event" : "the start event",
                "its stream has not reached it yet: synchronise first", where);
  }
  float milliseconds = 0;
  const DeviceScope scope(a.device);
  check(cudaEventElapsedTime(&milliseconds, a.native.load(), b.native.load()), operation, at(a.device).name(), where);
  return Milliseconds(milliseconds);
}

/// Whether any device has a context: without one there is no memory to find, and asking would make one.
bool CudaBackend::in_use() {
  if (in_use_.load(std::memory_order_relaxed)) return true;
  for (int device = 0; device < device_count(); ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver().context_state(device, &flags, &active) == CUDA_SUCCESS && active != 0) {
      in_use_.store(true, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

std::optional<PointerInfo> CudaBackend::locate(const void* data) {
  if (data == nullptr || device_count() == 0) return std::nullopt;
  if (const auto own = PinnedMemory::instance().find(data)) return own;
  if (!in_use()) return std::nullopt;
  cudaPointerAttributes attributes{};
  const cudaError_t answer = cudaPointerGetAttributes(&attributes, data);
  if (answer != cudaSuccess) {
    note(answer);
    return std::nullopt;
  }
  if (attributes.type == cudaMemoryTypeUnregistered) return std::nullopt;
  PointerInfo info;
  info.kind = attributes.type == cudaMemoryTypeHost ? MemoryKind::pinned : MemoryKind::device;
  info.device = info.kind == MemoryKind::device ? attributes.device : -1;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const DeviceScope scope(attributes.device >= 0 ? attributes.device : 0);
  if (driver().address_range(&base, &bytes, address) == CUDA_SUCCESS) {
    info.bytes = static_cast<std::size_t>(base + bytes - address);
  } else {
    info.bytes = ~std::size_t{0};  // foreign memory whose end the driver does not tell
  }
  return info;
}

}  // namespace

Backend& backend() { return CudaBackend::instance(); }

}  // namespace weir::cuda
