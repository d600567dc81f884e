// The CPU backend: its devices, and host memory.
#include "backends/cpu/cpu_backend.hpp"

#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <memory>
#include <new>
#include <vector>

#include <weir/dlpack.hpp>

#include "backend.hpp"
#include "backends/cpu/collectives/cpu_transport.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/memory/address_map.hpp"
#include "backends/cpu/memory/shared_file.hpp"
#include "backends/cpu/streams/cpu_event.hpp"
#include "backends/cpu/workers/topology.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

namespace {

class CpuHostMemory final : public detail::HostMemory {
 public:
  void* allocate(std::size_t bytes, const char* operation, SourceLocation where) override;
  void release(void* data) noexcept override {
    address_map().remove(data, false);
    std::free(data);
  }
  void pin(const void* data, std::size_t bytes, SourceLocation where) override;
  void unpin(const void* data, SourceLocation where) override;
};

void* CpuHostMemory::allocate(std::size_t bytes, const char* operation, SourceLocation where) {
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

void CpuHostMemory::pin(const void* data, std::size_t bytes, SourceLocation where) {
  switch (address_map().add(data, {bytes, {MemoryKind::pinned, -1, 0}, true})) {
    case AddressMap::Answer::overlaps:
      throw Error(Errc::already_pinned, "weir::pin", "host memory", "the range overlaps one that is pinned already",
                  where);
    case AddressMap::Answer::other_kind:
      throw Error(Errc::invalid_value, "weir::pin", "host memory", "the range is memory that Weir allocated", where);
    default: break;
  }
}

void CpuHostMemory::unpin(const void* data, SourceLocation where) {
  switch (address_map().remove(data, true)) {
    case AddressMap::Answer::absent:
      if (address_map().find(data, nullptr)) {
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

class CpuBackend;

/// All of them, for the end of the process.
struct Made {
  detail::Mutex mutex;
  std::vector<CpuBackend*> all WEIR_GUARDED_BY(mutex);
};
Made& made() {
  static auto& instance = *new Made;
  return instance;
}

/// The devices of the name "cpu", or one that stands behind another backend's: its objects are that one's, with its number.
class CpuBackend final : public Backend {
 public:
  CpuBackend() : front_(*this) {
    const int count = wanted_devices();
    for (int i = 0; i < count; ++i) {
      const int workers = std::max(1, wanted_workers() / count);
      devices_.emplace_back(front_, i, workers, physical_memory() / static_cast<std::size_t>(count));
    }
    peers_.resize(static_cast<std::size_t>(count * count));
    note_made();
  }
  CpuBackend(Backend& front, int index, std::size_t memory) : front_(front), first_(index) {
    devices_.emplace_back(front_, index, wanted_workers(), memory);
    note_made();
  }

  static CpuBackend& instance() {
    static auto& backend = *new CpuBackend;  // outlives every static object of the program
    return backend;
  }

  std::string_view name() const override { return "cpu"; }
  bool on_host() const override { return true; }
  int dlpack_type() const override { return dlpack::kDLCPU; }
  int device_count() override { return static_cast<int>(devices_.size()); }

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
  void set_wait_mode(int device, WaitMode mode, SourceLocation) override { at(device).pool().set_wait_mode(mode); }

  Queue& open_queue(int device, const QueueOptions& options) override { return at(device).open_queue(options); }

  detail::EventState& open_event(int device, bool timed) override { return at(device).open_event(timed); }
  detail::GraphExecutable* instantiate(int device, const detail::GraphForm& form, void*, SourceLocation) override {
    return new CpuGraph(at(device), form);
  }

  std::unique_ptr<detail::CollectiveTransport> open_transport(const std::vector<int>& devices) override {
    std::vector<CpuDevice*> theirs;
    for (const int device : devices) theirs.push_back(&at(device));
    return std::make_unique<CpuTransport>(std::move(theirs), false);
  }
  /// The device of one that stands behind another backend's.
  CpuDevice& behind() { return devices_.front(); }

  detail::PoolState& default_pool(int device) override { return at(device).default_pool(); }
  detail::PoolState& open_pool(int device, const PoolOptions& options) override {
    auto pool = std::make_unique<CpuPool>(front_, at(device), options);
    at(device).watch_pool(*pool);
    return *pool.release();
  }

  detail::HostMemory* host_memory() override { return &host_memory_; }
  detail::MemorySharing* memory_sharing() override { return &sharing_; }
  std::optional<PointerInfo> locate(const void* data) override { return address_map().find(data, &front_); }

  bool can_access_peer(int from, int to) override { return from != to; }
  bool peer_access(int from, int to) override { return peers_[pair(from, to)].load(std::memory_order_relaxed); }
  void set_peer_access(int from, int to, bool enabled) override { peers_[pair(from, to)].store(enabled); }

 private:
  /// Its workers stop as the process ends.
  void note_made() {
    process_ = getpid();
    const detail::LockGuard guard(made().mutex);
    made().all.push_back(this);
    static const int registered = std::atexit([] {
      const detail::LockGuard all(made().mutex);
      for (CpuBackend* backend : made().all) {
        if (getpid() != backend->process_) return;  // a forked child has none of the workers
        for (CpuDevice& device : backend->devices_) device.pool().stop();
      }
    });
    static_cast<void>(registered);
  }

  CpuDevice& at(int device) { return devices_[static_cast<std::size_t>(device - first_)]; }
  std::size_t pair(int from, int to) const {
    return static_cast<std::size_t>(from) * devices_.size() + static_cast<std::size_t>(to);
  }

  class Sharing final : public detail::MemorySharing {
   public:
    explicit Sharing(CpuBackend& backend) : backend_(backend) {}
    detail::SharedMemory share(detail::PoolState& pool, void* data, const char* operation,
                               SourceLocation where) override {
      return static_cast<CpuPool&>(pool).share(data, operation, where);
    }
    void* map(int device, const Foreign& foreign) override { return map_shared(backend_.front_, device, foreign); }
    void unmap(int, void* data, const detail::SharedMemory& memory) noexcept override { unmap_shared(data, memory); }

   private:
    CpuBackend& backend_;
  };

  Backend& front_;
  const int first_ = 0;  ///< the number of the first device
  pid_t process_ = 0;
  std::deque<CpuDevice> devices_;
  std::deque<std::atomic<bool>> peers_;
  CpuHostMemory host_memory_;
  Sharing sharing_{*this};
};

}  // namespace

Backend& backend() { return CpuBackend::instance(); }

Backend& device_behind(Backend& front, int index, std::size_t memory) { return *new CpuBackend(front, index, memory); }

std::unique_ptr<detail::CollectiveTransport> transport_behind(const std::vector<Backend*>& behind) {
  std::vector<CpuDevice*> devices;
  for (Backend* one : behind) devices.push_back(&static_cast<CpuBackend*>(one)->behind());
  return std::make_unique<CpuTransport>(std::move(devices), true);
}

}  // namespace weir::cpu
