// Queues, events and synchronisation of one GPU.
#include "backends/cuda/cuda_device.hpp"

#include <algorithm>
#include <memory>

#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/condition_kernels.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/memory/strided_kernels.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
/// Filled once, before anything else is asked of the devices.
std::vector<CudaDevice*>& all_devices() {
  static auto& all = *new std::vector<CudaDevice*>;
  return all;
}
}  // namespace

CudaDevice& CudaDevice::at(int index) { return *all_devices()[static_cast<std::size_t>(index)]; }

CudaDevice::CudaDevice(Backend& backend, int index)
    : backend_(backend),
      index_(index),
      name_("cuda:" + std::to_string(index)),
      default_pool_(new CudaPool(
          *this, PoolOptions{.release_threshold = ~std::size_t{0}, .max_size = 0, .name = "default pool"})),
      legacy_(new CudaQueue(*this)),
      peers_(static_cast<std::size_t>(driver().device_count)),
      reached_by_(static_cast<std::size_t>(driver().device_count)) {
  QueueOptions options;
  options.kind = QueueOptions::Kind::legacy;
  options.label = "the legacy stream of " + name_;
  legacy_->open(options);
  queues_.push_back(legacy_);
  pools_.push_back(default_pool_);
  all_devices().push_back(this);
}

void CudaDevice::start(SourceLocation where) {
  if (started()) return;
  const detail::LockGuard guard(start_mutex_);
  if (started()) return;
  const DeviceScope scope(index_);
  check(cudaFree(nullptr), "weir: starting a device", name_, where);  // makes the context
  check(load_strided_kernels(), "weir: starting a device", name_, where);
  check(load_condition_kernels(), "weir: starting a device", name_, where);
  make_room_for_streams(where);
  for (detail::DeviceCode* code = detail::first_device_code(); code != nullptr; code = code->next) {
    if (code->kind == detail::DeviceCode::Kind::global) continue;
    try {
      load(*code, where);
    } catch (const Error&) {
      // Whoever launches it is told why there is no code for this device.
    }
  }
  started_.store(true, std::memory_order_release);
}

/// The driver's room for streams grows in steps, and each step waits for all running kernels. One step now, for 5 us a
/// stream, and the first thousand streams come without waiting (C10, R60).
void CudaDevice::make_room_for_streams(SourceLocation where) {
  constexpr std::size_t room = 1024;
  std::vector<cudaStream_t> streams(room);
  for (cudaStream_t& stream : streams) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "weir: starting a device", name_, where);
  }
  for (cudaStream_t stream : streams) static_cast<void>(cudaStreamDestroy(stream));
}

CudaDevice::Kept& CudaDevice::kept(bool blocking, int priority) {
  for (Kept& one : kept_) {
    if (one.blocking == blocking && one.priority == priority) return one;
  }
  return kept_.emplace_back(Kept{blocking, priority, {}, {}});
}

/// A queue without pending work: nobody's new stream waits for somebody's old one. The lock is held.
CudaQueue* CudaDevice::take_kept(Kept& kept) {
  if (!kept.idle.empty()) {
    CudaQueue* queue = kept.idle.back();
    kept.idle.pop_back();
    return queue;
  }
  constexpr std::size_t most_asked = 4;
  for (std::size_t i = 0; i < std::min(kept.in_doubt.size(), most_asked); ++i) {
    CudaQueue* queue = kept.in_doubt[i];
    if (!queue->idle()) continue;
    keep_failure_of(*queue);
    kept.in_doubt.erase(kept.in_doubt.begin() + static_cast<std::ptrdiff_t>(i));
    return queue;
  }
  return nullptr;
}

/// Its stream is gone and another one gets it. The lock is held.
void CudaDevice::keep_failure_of(CudaQueue& queue) {
  failures_.reserve(failures_.size() + 1);
  if (auto error = queue.failures().lose()) failures_.emplace_back(&queue, std::move(error));
}

CudaQueue& CudaDevice::open_queue(const QueueOptions& options) {
  check_not_failed("weir::Stream", options.label, {});
  if (options.kind == QueueOptions::Kind::legacy) {
    legacy_->open(options);
    return *legacy_;
  }
  const bool blocking = options.kind == QueueOptions::Kind::stream && options.blocking;
  const detail::LockGuard guard(queues_mutex_);
  CudaQueue* queue = take_kept(kept(blocking, options.priority));
  if (queue == nullptr) {
    queues_.reserve(queues_.size() + 1);
    queue = new CudaQueue(*this);
    queues_.push_back(queue);
  }
  queue->open(options);
  return *queue;
}

CudaQueue& CudaDevice::wrap_queue(cudaStream_t stream, const QueueOptions& options) {
  start({});
  const detail::LockGuard guard(queues_mutex_);
  CudaQueue* queue = nullptr;
  const auto free = std::find_if(free_wrappers_.begin(), free_wrappers_.end(), [](CudaQueue* q) { return q->idle(); });
  if (free != free_wrappers_.end()) {
    queue = *free;
    keep_failure_of(*queue);
    free_wrappers_.erase(free);
  } else {
    queues_.reserve(queues_.size() + 1);
    queue = new CudaQueue(*this);
    queues_.push_back(queue);
  }
  queue->open(options);
  queue->wrap(stream);
  return *queue;
}

CudaQueue& CudaDevice::waiting_queue() {
  constexpr std::size_t most = 4;  // each is a stream of the driver's, which takes its part in the hardware's queues
  const detail::LockGuard guard(waiting_queues_mutex_);
  for (CudaQueue* queue : waiting_queues_) {
    if (queue->idle()) return *queue;
  }
  if (waiting_queues_.size() < most) {
    QueueOptions options;
    options.kind = QueueOptions::Kind::internal;
    options.blocking = false;
    options.label = "housekeeping on " + name_;
    waiting_queues_.reserve(most);
    waiting_queues_.push_back(&open_queue(options));
    return *waiting_queues_.back();
  }
  next_waiting_ = (next_waiting_ + 1) % most;
  return *waiting_queues_[next_waiting_];
}

void CudaDevice::take_back(CudaQueue& queue) {
  if (queue.legacy()) return;
  const detail::LockGuard guard(queues_mutex_);
  if (queue.wrapped()) {
    queue.unwrap();
    free_wrappers_.push_back(&queue);
    return;
  }
  Kept& place = kept(queue.blocking(), queue.priority());
  if (queue.used()) {
    place.in_doubt.push_back(&queue);
  } else {
    place.idle.push_back(&queue);
  }
}

CudaEvent& CudaDevice::open_event(bool timed) {
  const detail::LockGuard guard(events_mutex_);
  std::vector<CudaEvent*>& free = free_events_[timed ? 1 : 0];
  if (free.empty()) {
    auto event = std::make_unique<CudaEvent>();
    event->backend = &backend_;
    event->device = index_;
    event->timed = timed;
    return *event.release();
  }
  CudaEvent* event = free.back();
  free.pop_back();
  return *event;
}

void CudaDevice::close_event(CudaEvent& event) {
  event.recorded.store(false, std::memory_order_relaxed);
  event.queue.store(nullptr, std::memory_order_relaxed);
  const detail::LockGuard guard(events_mutex_);
  event.closed = event.graphs > 0;
  if (!event.closed) free_events_[event.timed ? 1 : 0].push_back(&event);
}

void CudaDevice::keep_for_graph(CudaEvent& event) {
  const detail::LockGuard guard(events_mutex_);
  ++event.graphs;
}

void CudaDevice::forget_graph_of(CudaEvent& event) noexcept {
  const detail::LockGuard guard(events_mutex_);
  if (--event.graphs > 0 || !event.closed) return;
  event.closed = false;
  event.recorded.store(false, std::memory_order_relaxed);
  try {
    free_events_[event.timed ? 1 : 0].push_back(&event);
  } catch (...) {
    // Without memory for the list the event is not used again.
  }
}

void CudaDevice::synchronize(const char* operation, SourceLocation where) {
  if (started()) {
    const DeviceScope scope(index_);
    check(cudaDeviceSynchronize(), operation, name_, where);
    CudaGraph::collect();
  } else {
    check_not_failed(operation, name_, where);
  }
  const detail::LockGuard guard(queues_mutex_);
  if (!failures_.empty()) {
    const auto [queue, error] = std::move(failures_.front());
    failures_.erase(failures_.begin());
    queue->failures().forget(*error);
    detail::throw_seen(*error);
  }
  for (CudaQueue* queue : queues_) {
    if (const auto error = queue->failures().take()) detail::throw_seen(*error);
  }
}

void CudaDevice::drain() noexcept {
  if (!started()) return;
  const DeviceScope scope(index_);
  note(cudaDeviceSynchronize());
}

cudaStream_t CudaDevice::own_stream(std::atomic<cudaStream_t>& place, unsigned flags, SourceLocation where) {
  if (const cudaStream_t made = place.load(std::memory_order_acquire)) return made;
  start(where);
  const detail::LockGuard guard(start_mutex_);
  if (const cudaStream_t made = place.load(std::memory_order_relaxed)) return made;
  const DeviceScope scope(index_);
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, flags), "weir: starting a device", name_, where);
  place.store(made, std::memory_order_release);
  return made;
}

cudaStream_t CudaDevice::make_waiting_stream(SourceLocation where) {
  // The streams of one priority share hardware queues, where a held one may hold up others (R182): these are held a lot, and
  // few streams have the greatest priority.
  constexpr int greatest_priority = -5;
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithPriority(&made, cudaStreamNonBlocking, greatest_priority), "weir::Stream::wait", name_,
        where);
  return made;
}

cudaStream_t CudaDevice::take_waiting_stream(SourceLocation where) {
  {
    const detail::LockGuard guard(waiting_mutex_);
    if (!waiting_streams_.empty()) {
      const cudaStream_t stream = waiting_streams_.back();
      waiting_streams_.pop_back();
      return stream;
    }
  }
  return make_waiting_stream(where);
}

void CudaDevice::give_waiting_stream(cudaStream_t stream) noexcept {
  const detail::LockGuard guard(waiting_mutex_);
  try {
    waiting_streams_.push_back(stream);
  } catch (...) {
    // Without memory for the list the stream is not used again.
  }
}

volatile unsigned long long* CudaDevice::take_flag(SourceLocation where) {
  constexpr std::size_t slab = 512;
  const detail::LockGuard guard(flags_mutex_);
  if (!free_flags_.empty()) {
    volatile unsigned long long* flag = free_flags_.back();
    free_flags_.pop_back();
    return flag;
  }
  if (flags_left_ == 0) {
    const DeviceScope scope(index_);
    void* memory = nullptr;
    check(cudaHostAlloc(&memory, slab * sizeof(unsigned long long), cudaHostAllocPortable), "weir::host_call", name_,
          where);
    flags_ = static_cast<unsigned long long*>(memory);
    flags_left_ = slab;
  }
  return &flags_[--flags_left_];
}

void CudaDevice::give_flag(volatile unsigned long long* flag) noexcept {
  const detail::LockGuard guard(flags_mutex_);
  try {
    free_flags_.push_back(flag);
  } catch (...) {
    // Without memory for the list the word is not used again.
  }
}

CudaPool& CudaDevice::open_pool(const PoolOptions& options) {
  auto pool = std::make_unique<CudaPool>(*this, options);
  const detail::LockGuard guard(pools_mutex_);
  pools_.push_back(pool.get());
  return *pool.release();
}

void CudaDevice::close_pool(CudaPool& pool) noexcept {
  {
    const detail::LockGuard guard(pools_mutex_);
    std::erase(pools_, &pool);
  }
  pool.close();
}

cudaMemPool_t CudaDevice::take_driver_pool(std::size_t max_size, const std::string& object, SourceLocation where) {
  {
    const detail::LockGuard guard(pools_mutex_);
    for (auto spare = spare_pools_.begin(); spare != spare_pools_.end(); ++spare) {
      cuuint64_t reserved = 1;
      if (spare->second != max_size) continue;
      note(cudaMemPoolTrimTo(spare->first, 0));
      note(cudaMemPoolGetAttribute(spare->first, cudaMemPoolAttrReservedMemCurrent, &reserved));
      if (reserved != 0) continue;
      const cudaMemPool_t pool = spare->first;
      spare_pools_.erase(spare);
      cuuint64_t zero = 0;
      note(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReservedMemHigh, &zero));
      return pool;
    }
  }
  // Never the driver's own default pool: other libraries of the process use that one, with thresholds of their own.
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = index_;
  props.maxSize = max_size;
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &props), "weir::Pool", object, where);
  return pool;
}

void CudaDevice::keep_driver_pool(cudaMemPool_t pool, std::size_t max_size) noexcept {
  cuuint64_t nothing = 0;
  note(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &nothing));
  note(cudaMemPoolTrimTo(pool, 0));
  try {
    const detail::LockGuard guard(pools_mutex_);
    spare_pools_.emplace_back(pool, max_size);
  } catch (...) {
    // Without memory for the list it is not used again; what it holds goes at the next synchronisation.
  }
}

std::size_t CudaDevice::memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  const DeviceScope scope(index_);
  note(cudaMemGetInfo(&free, &total));
  return total;
}

bool CudaDevice::can_access(int peer) const {
  int possible = 0;
  return peer != index_ && cudaDeviceCanAccessPeer(&possible, index_, peer) == cudaSuccess && possible != 0;
}
bool CudaDevice::peer_access(int peer) const {
  return peers_[static_cast<std::size_t>(peer)].load(std::memory_order_relaxed);
}
bool CudaDevice::reached_by(int peer) const {
  return reached_by_[static_cast<std::size_t>(peer)].load(std::memory_order_relaxed);
}

void CudaDevice::set_peer_access(CudaDevice& peer, bool enabled) {
  const char* operation = enabled ? "weir::enable_peer_access" : "weir::disable_peer_access";
  start({});
  peer.start({});
  {
    const DeviceScope scope(index_);
    cudaError_t answer =
        enabled ? cudaDeviceEnablePeerAccess(peer.index(), 0) : cudaDeviceDisablePeerAccess(peer.index());
    // Another library of the process may have done it before.
    if (answer == cudaErrorPeerAccessAlreadyEnabled || answer == cudaErrorPeerAccessNotEnabled) {
      note(answer);
      answer = cudaSuccess;
    }
    check(answer, operation, name_ + " to " + peer.name(), {});
  }
  peers_[static_cast<std::size_t>(peer.index())].store(enabled);
  peer.reached_by_[static_cast<std::size_t>(index_)].store(enabled);
  // Memory of pools has rights of its own (R204).
  peer.for_each_pool([&](CudaPool& pool) { pool.set_access(index_, enabled); });
}

}  // namespace weir::cuda
