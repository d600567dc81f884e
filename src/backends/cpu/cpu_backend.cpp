// The CPU backend: the seam's calls, handed to devices, queues, events and pools.
#include "backends/cpu/cpu_backend.hpp"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include <weir/dlpack.hpp>

#include "backend.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/memory/address_map.hpp"
#include "backends/cpu/streams/cpu_event.hpp"
#include "backends/cpu/workers/topology.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

namespace {

CpuQueue& as_cpu(Queue& queue) { return static_cast<CpuQueue&>(queue); }
CpuPool& as_cpu(detail::PoolState& pool) { return static_cast<CpuPool&>(pool); }
CpuEvent& as_cpu(detail::EventState& event) { return static_cast<CpuEvent&>(event); }

class CpuBackend final : public Backend {
 public:
  CpuBackend() {
    const int count = wanted_devices();
    for (int i = 0; i < count; ++i) {
      const int workers = std::max(1, wanted_workers() / count);
      devices_.emplace_back(*this, i, workers, physical_memory() / static_cast<std::size_t>(count));
    }
    peers_.resize(static_cast<std::size_t>(count * count));
    process_ = getpid();
    std::atexit([] {
      if (getpid() != instance().process_) return;  // a forked child has none of the workers
      for (CpuDevice& device : instance().devices_) device.pool().stop();
    });
  }

  static CpuBackend& instance() {
    static auto& backend = *new CpuBackend;  // outlives every static object of the program
    return backend;
  }

  std::string_view name() const override { return "cpu"; }
  bool on_host() const override { return true; }
  int dlpack_type() const override { return dlpack::kDLCPU; }
  int device_count() override { return static_cast<int>(devices_.size()); }
  std::string why_absent() override { return {}; }

  DeviceProperties properties(int device) override {
    DeviceProperties p;
    p.name = processor_name();
    p.backend = "cpu";
    p.multiprocessors = at(device).pool().width();
    p.memory = at(device).memory().limit();
    p.concurrent_kernels = true;
    p.async_engine_count = std::max(2, p.multiprocessors);
    p.max_resident_kernels = WorkerPool::most_workers;
    p.stream_priorities = {0, 1 - WorkerPool::levels};
    p.max_threads_per_block = 1024;
    p.max_shared_bytes_per_block = 227 * 1024;
    p.cache_bytes = cache_bytes();
    p.memory_pools = true;
    return p;
  }
  void synchronize(int device, const char* operation, SourceLocation where) override {
    at(device).synchronize(operation, where);
  }

  void drain(int device) noexcept override { at(device).drain(); }

  Queue& open_queue(int device, const QueueOptions& options) override { return at(device).open_queue(options); }
  Queue* wrap_queue(int, void*, const QueueOptions&) override { return nullptr; }

  detail::EventState* open_event(int device, bool timed) override {
    const detail::LockGuard guard(events_mutex_);
    if (free_events_.empty()) {
      // Room for all of them: an event is given back without fail.
      if (free_events_.capacity() <= events_.size()) free_events_.reserve(2 * events_.size() + 16);
      free_events_.push_back(&events_.emplace_back());
    }
    CpuEvent* event = free_events_.back();
    free_events_.pop_back();
    event->backend = this;
    event->device = device;
    event->timed = timed;
    return event;
  }
  void close_event(detail::EventState* event) noexcept override {
    as_cpu(*event).close();
    const detail::LockGuard guard(events_mutex_);
    free_events_.push_back(static_cast<CpuEvent*>(event));
  }
  bool event_done(detail::EventState& event) override { return as_cpu(event).done(); }
  void synchronize_event(detail::EventState& event, const char* operation, SourceLocation where) override {
    as_cpu(event).synchronize(operation, where);
    at(event.device).after_synchronize();
  }
  Milliseconds elapsed(detail::EventState& start, detail::EventState& end, SourceLocation where) override;
  bool event_passed(detail::EventState& event) override { return as_cpu(event).passed(); }
  void signal_after(detail::EventState& event, std::unique_ptr<detail::Signal>& signal, SourceLocation) override {
    as_cpu(event).signal_after(signal);
  }
  void signal_after(Queue& queue, StreamId, std::unique_ptr<detail::Signal>& signal) override {
    as_cpu(queue).signal_after(as_cpu(queue).tail(), signal);
  }
  bool event_recorded(detail::EventState& event) override { return as_cpu(event).mark().queue != nullptr; }
  detail::GraphExecutable* instantiate(int device, const detail::GraphForm& form, void*, SourceLocation) override {
    return new CpuGraph(at(device), form);
  }

  detail::PoolState* default_pool(int device) override { return &at(device).default_pool(); }
  detail::PoolState* open_pool(int device, const PoolOptions& options) override {
    auto pool = std::make_unique<CpuPool>(*this, at(device), options);
    at(device).watch_pool(*pool);
    return pool.release();
  }
  void close_pool(detail::PoolState* pool) noexcept override { as_cpu(*pool).close(); }
  void* allocate(detail::PoolState& pool, Queue& queue, std::size_t bytes, const char* operation,
                 SourceLocation where) override {
    return as_cpu(pool).allocate(as_cpu(queue), bytes, operation, where);
  }
  void release(detail::PoolState& pool, Queue& queue, bool open, StreamId, detail::QueuePlaces& others, void* data,
               SourceLocation where) override {
    as_cpu(pool).release(as_cpu(queue), open, others, data, where);
  }
  void release_unshared(detail::PoolState& pool, Queue& queue, bool open, StreamId, void* data,
                        SourceLocation where) override {
    as_cpu(pool).release(as_cpu(queue), open, data, where);
  }
  void trim(detail::PoolState& pool, std::size_t keep) override { as_cpu(pool).trim(keep); }
  std::size_t release_threshold(detail::PoolState& pool) override { return as_cpu(pool).threshold(); }
  void set_release_threshold(detail::PoolState& pool, std::size_t bytes) override {
    CpuPool& cpu_pool = as_cpu(pool);
    cpu_pool.set_threshold(bytes);
    at(pool.device).watch_pool(cpu_pool);
  }
  PoolStatistics statistics(detail::PoolState& pool) override { return as_cpu(pool).statistics(); }
  void reset_high_marks(detail::PoolState& pool) override { as_cpu(pool).reset_high_marks(); }

  void* allocate_pinned(std::size_t bytes, const char* operation, SourceLocation where) override;
  void release_pinned(void* data) noexcept override {
    address_map().remove(data, false);
    std::free(data);
  }
  void pin(const void* data, std::size_t bytes, SourceLocation where) override;
  void unpin(const void* data, SourceLocation where) override;
  std::optional<PointerInfo> locate(const void* data) override { return address_map().find(data); }

  bool can_access_peer(int from, int to) override { return from != to; }
  bool peer_access(int from, int to) override { return peers_[pair(from, to)].load(std::memory_order_relaxed); }
  void set_peer_access(int from, int to, bool enabled) override { peers_[pair(from, to)].store(enabled); }

 private:
  CpuDevice& at(int device) { return devices_[static_cast<std::size_t>(device)]; }
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * devices_.size() + static_cast<std::size_t>(to);
  }

  pid_t process_ = 0;
  std::deque<CpuDevice> devices_;
  std::deque<std::atomic<bool>> peers_;
  detail::Mutex events_mutex_;
  std::deque<CpuEvent> events_ WEIR_GUARDED_BY(events_mutex_);  ///< never shrinks
  std::vector<CpuEvent*> free_events_ WEIR_GUARDED_BY(events_mutex_);
};

Milliseconds CpuBackend::elapsed(detail::EventState& start, detail::EventState& end, SourceLocation where) {
  const CpuEvent::Kept a = as_cpu(start).keep();
  const CpuEvent::Kept b = as_cpu(end).keep();
  if (a->stamp == nullptr || b->stamp == nullptr) {
    throw Error(Errc::invalid_handle, "weir::elapsed", a->stamp == nullptr ? "the start event" : "the end event",
                "it was never recorded", where);
  }
  const bool a_done = a->queue->reached(a->sequence);
  if (!a_done || !b->queue->reached(b->sequence)) {
    throw Error(Errc::not_ready, "weir::elapsed", a_done ? "the end event" : "the start event",
                "its stream has not reached it yet: synchronise first", where);
  }
  const auto ticks =
      b->stamp->nanoseconds.load(std::memory_order_acquire) - a->stamp->nanoseconds.load(std::memory_order_acquire);
  return Milliseconds(static_cast<float>(static_cast<double>(ticks) * 1e-6));
}

void* CpuBackend::allocate_pinned(std::size_t bytes, const char* operation, SourceLocation where) {
  void* data = bytes > physical_memory() ? nullptr : std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  try {
    if (data == nullptr) throw std::bad_alloc();
    address_map().add(data, {bytes, {MemoryKind::pinned, -1, 0}, false});
    return data;
  } catch (const std::bad_alloc&) {
    std::free(data);
    throw Error(Errc::out_of_memory, operation, "pinned host memory",
                "no memory for " + std::to_string(bytes) + " bytes", where);
  }
}

void CpuBackend::pin(const void* data, std::size_t bytes, SourceLocation where) {
  switch (address_map().add(data, {bytes, {MemoryKind::pinned, -1, 0}, true})) {
    case AddressMap::Answer::overlaps:
      throw Error(Errc::already_pinned, "weir::pin", "host memory", "the range overlaps one that is pinned already",
                  where);
    case AddressMap::Answer::other_kind:
      throw Error(Errc::invalid_value, "weir::pin", "host memory", "the range is memory that Weir allocated", where);
    default: break;
  }
}

void CpuBackend::unpin(const void* data, SourceLocation where) {
  switch (address_map().remove(data, true)) {
    case AddressMap::Answer::absent:
      if (address_map().find(data)) {
        throw Error(Errc::invalid_value, "weir::unpin", "host memory",
                    "the address is inside a pinned range, not its beginning", where);
      }
      throw Error(Errc::not_pinned, "weir::unpin", "host memory", "no range that begins there was pinned", where);
    case AddressMap::Answer::other_kind:
      throw Error(Errc::invalid_value, "weir::unpin", "host memory",
                  "this is memory that Weir allocated, not pinned in place", where);
    default: break;
  }
}

}  // namespace

Backend& backend() { return CpuBackend::instance(); }

}  // namespace weir::cpu
