// Queues, events and synchronisation of one GPU.
#include "backends/cuda/cuda_device.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <utility>

#include "backends/cuda/collectives/reduce_kernels.hpp"
#include "backends/cuda/collectives/widen_kernels.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/condition_kernels.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/memory/strided_kernels.hpp"
#include "backends/cuda/streams/clock_kernel.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/flag_kernel.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {
constexpr std::size_t most_waiting_queues =
    4;  // each is a stream of the driver's, which takes its part in the hardware's queues
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
      reached_by_(static_cast<std::size_t>(driver().device_count)),
      open_to_(static_cast<std::size_t>(driver().device_count)) {
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
  check(load_staged_kernels(), "weir: starting a device", name_, where);
  check(load_widen_kernels(), "weir: starting a device", name_, where);
  check(load_reduce_kernels(index_), "weir: starting a device", name_, where);
  check(load_condition_kernels(), "weir: starting a device", name_, where);
  check(load_clock_kernel(), "weir: starting a device", name_, where);
  check(load_flag_kernel(), "weir: starting a device", name_, where);
  if (!flag_words_.filled()) {
    void* words = nullptr;
    check(cudaMalloc(&words, FlagWords::count * sizeof(unsigned long long)), "weir: starting a device", name_, where);
    flag_words_.fill(static_cast<volatile unsigned long long*>(words));
  }
  stocks_.fill(where);
  times_memory_.fill(where);
  Signals::instance().fill(where);
  PinnedMemory::instance().fill_soon();
  staging_.fill_soon();
  for (detail::DeviceCode* code = detail::first_device_code(); code != nullptr; code = code->next) {
    if (code->kind == detail::DeviceCode::Kind::global) continue;
    if (code->kind == detail::DeviceCode::Kind::file) {
      load_file(*code);
      continue;
    }
    try {
      load(*code, where);
    } catch (const Error&) {
      // Whoever launches it is told why there is no code for this device.
    }
  }
  started_.store(true, std::memory_order_release);
  apply_wait_mode(where);  // behind it: who sets the mode meanwhile finds the device started, or is found here
}

CudaQueue& CudaDevice::take_capture_queue(int priority) {
  check_not_failed("weir: making a graph", name_, {});
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.priority = priority;
  options.blocking = false;
  options.label = "graph on " + name_;
  const detail::LockGuard guard(capture_queues_mutex_);
  const auto fits = [&](const CudaQueue* queue) { return queue->priority() == priority; };
  const auto found = std::find_if(capture_queues_.begin(), capture_queues_.end(), fits);
  if (found != capture_queues_.end()) {
    CudaQueue* queue = *found;
    capture_queues_.erase(found);
    return *queue;
  }
  capture_queues_.reserve(made_capture_queues_ + 1);
  auto queue = std::make_unique<CudaQueue>(*this);
  queue->open(options);
  ++made_capture_queues_;
  return *queue.release();
}

void CudaDevice::give_capture_queue(CudaQueue& queue) noexcept {
  const detail::LockGuard guard(capture_queues_mutex_);
  capture_queues_.push_back(&queue);
}

void CudaDevice::close_legacy(SourceLocation where) {
  if (!legacy_gate_.closed()) {
    cudaEvent_t mark = nullptr;
    if (legacy_->used() || legacy_handles_.load(std::memory_order_relaxed)) {
      const cudaStream_t mirror = legacy_mirror(where);
      const DeviceScope scope(index_);
      if (legacy_event_ == nullptr) {
        legacy_event_ = stocks_.take_event(false, where);
      }
      check(cudaEventRecord(legacy_event_, mirror), "weir::capture_begin", name_, where);
      mark = legacy_event_;
    }
    legacy_mark_.store(mark, std::memory_order_release);
  }
  legacy_gate_.close();
}

void CudaDevice::put_off(std::unique_ptr<DeadBlock> block) noexcept {
  const detail::LockGuard guard(put_off_mutex_);
  block->next = std::move(put_off_);
  put_off_ = std::move(block);
  any_put_off_.store(true, std::memory_order_relaxed);
}

void CudaDevice::free_what_was_put_off() noexcept {
  if (!any_put_off_.load(std::memory_order_relaxed)) return;
  std::unique_ptr<DeadBlock> blocks;
  {
    const detail::LockGuard guard(put_off_mutex_);
    blocks = std::move(put_off_);
    any_put_off_.store(false, std::memory_order_relaxed);
  }
  while (blocks) {
    auto block = std::exchange(blocks, std::move(blocks->next));
    CudaPool& pool = *block->pool;
    pool.free_again(std::move(block));
  }
}

void CudaDevice::free_what_was_put_off_soon() noexcept {
  if (!any_put_off_.load(std::memory_order_relaxed)) return;
  try {
    auto task = make_task([this] { free_what_was_put_off(); });
    TaskThread::housekeeper().post(task);
  } catch (...) {
    // There will be more housekeeping.
  }
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
    if (queue->progress() != Answer::done) continue;
    keep_failure_of(*queue);
    kept.in_doubt.erase(kept.in_doubt.begin() + static_cast<std::ptrdiff_t>(i));
    return queue;
  }
  return nullptr;
}

/// Its stream is gone and another one gets it. The lock is held.
void CudaDevice::keep_failure_of(CudaQueue& queue) {
  failures_.reserve(failures_.size() + 1);
  if (auto error = queue.failures().lose()) failures_.emplace_back(&queue.failures(), std::move(error));
}

CudaQueue& CudaDevice::open_queue(const QueueOptions& options) {
  check_not_failed("weir::Stream", options.label, {});
  if (options.kind == QueueOptions::Kind::legacy) {
    legacy_->open(options);
    legacy_->failures().set_stream(options.stream);
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
  queue->failures().set_stream(options.stream);
  return *queue;
}

CudaQueue& CudaDevice::waiting_queue() {
  const detail::LockGuard guard(waiting_queues_mutex_);
  for (CudaQueue* queue : waiting_queues_) {
    if (queue->progress() == Answer::done) return *queue;
  }
  if (waiting_queues_.size() < most_waiting_queues) {
    QueueOptions options;
    options.kind = QueueOptions::Kind::internal;
    options.blocking = false;
    options.label = "housekeeping on " + name_;
    waiting_queues_.reserve(most_waiting_queues);
    waiting_queues_.push_back(&open_queue(options));
    return *waiting_queues_.back();
  }
  next_waiting_ = (next_waiting_ + 1) % most_waiting_queues;
  return *waiting_queues_[next_waiting_];
}

void CudaDevice::settle_waiting_queues() noexcept {
  std::array<CudaQueue*, most_waiting_queues> queues{};
  {
    const detail::LockGuard guard(waiting_queues_mutex_);
    std::copy(waiting_queues_.begin(), waiting_queues_.end(), queues.begin());
  }
  for (CudaQueue* queue : queues) {
    if (queue != nullptr) queue->settle();
  }
}

void CudaDevice::take_back(CudaQueue& queue) {
  if (queue.legacy()) return;
  if (queue.wrapped()) {
    queue.unwrap();
    const detail::LockGuard guard(queues_mutex_);
    free_wrappers_.push_back(&queue);
    return;
  }
  const detail::LockGuard guard(queues_mutex_);
  Kept& place = kept(queue.blocking(), queue.priority());
  if (queue.used()) {
    place.in_doubt.push_back(&queue);
  } else {
    place.idle.push_back(&queue);
  }
}

void CudaDevice::synchronize(const char* operation, SourceLocation where) {
  std::vector<QueueEnd> ends;
  if (started()) {
    ends = mark_ends(operation, where, true);
    wait_for(ends, operation, where);
    CudaGraph::collect();
    free_what_was_put_off();
    for (const QueueEnd& end : ends) end.queue->settle();
  } else {
    check_not_failed(operation, name_, where);
  }
  const detail::LockGuard guard(queues_mutex_);
  if (!failures_.empty()) {
    const auto [state, error] = std::move(failures_.front());
    failures_.erase(failures_.begin());
    state->forget(*error);
    detail::throw_seen(*error);
  }
  // A later failure is left to who waits for it: once it is taken, what is pending behind it would run.
  for (const QueueEnd& end : ends) {
    if (const auto error = end.failures->take(end.place)) detail::throw_seen(*error);
  }
}

void CudaDevice::drain() noexcept {
  if (!started()) return;
  try {
    wait_for(mark_ends("weir: waiting for a device", {}, false), "weir: waiting for a device", {});
  } catch (...) {
    // The driver answers no more.
  }
}

bool CudaDevice::is_idle() noexcept {
  if (!started()) return true;
  const detail::LockGuard guard(queues_mutex_);
  return std::all_of(queues_.begin(), queues_.end(),
                     [](CudaQueue* queue) { return !queue->used() || queue->progress() == Answer::done; });
}

/// Behind what every queue has taken that was used since it was opened, or settled. The driver's own wait for a device crashes beside captures (R212), and would hold them up
/// if they were kept out for as long as it lasts.
std::vector<CudaDevice::QueueEnd> CudaDevice::mark_ends(const char* operation, SourceLocation where, bool throws) {
  static_cast<void>(legacy_->stream(where));  // others use it, too
  std::vector<CudaQueue*> queues;
  {
    const detail::LockGuard guard(queues_mutex_);
    for (Kept& one : kept_) rest(one);
    queues.reserve(queues_.size());
    std::copy_if(queues_.begin(), queues_.end(), std::back_inserter(queues),
                 [](CudaQueue* q) { return q->used() || q->unsettled(); });
  }
  std::vector<QueueEnd> ends;
  ends.reserve(queues.size());
  for (CudaQueue* queue : queues) {
    try {
      FailureState& failures = queue->failures();
      const std::uint64_t place = failures.place();
      CommandTimes::End times = queue->times().end();
      ends.push_back({queue, &failures, place, std::move(times), queue->mark_end(operation, where)});
    } catch (const Error&) {
      if (throws) throw;
    }
  }
  return ends;
}

/// Queues without an owner that are found done are asked no more.
void CudaDevice::rest(Kept& kept) {
  for (std::size_t left = kept.in_doubt.size(); left > 0; --left) {
    CudaQueue* queue = kept.in_doubt.front();
    if (queue->progress() == Answer::done) {
      keep_failure_of(*queue);
      kept.idle.push_back(queue);
      queue->rest();
    } else {
      kept.in_doubt.push_back(queue);
    }
    kept.in_doubt.pop_front();
  }
}

void CudaDevice::wait_for(const std::vector<QueueEnd>& ends, const char* operation, SourceLocation where) {
  const DeviceScope scope(index_);
  for (const QueueEnd& end : ends) {
    if (end.mark) check(wait_for(end.mark.event()), operation, name_, where);
    end.times.reached();
  }
}

cudaStream_t CudaDevice::own_stream(std::atomic<cudaStream_t>& place, bool blocking, SourceLocation where) {
  if (const cudaStream_t made = place.load(std::memory_order_acquire)) return made;
  start(where);
  const cudaStream_t made = stocks_.take_stream(blocking, 0, "weir: starting a device", name_, where);
  cudaStream_t nobody = nullptr;
  if (place.compare_exchange_strong(nobody, made)) return made;
  stocks_.give_stream(made, blocking, 0);
  return nobody;
}

std::vector<CudaPool*> CudaDevice::hold_pools() {
  const detail::LockGuard guard(pools_mutex_);
  std::vector<CudaPool*> held = pools_;
  for (CudaPool* pool : held) pool->hold();
  return held;
}

void CudaDevice::let_go(CudaPool& pool) noexcept { pool.let_go(); }

CudaPool& CudaDevice::open_pool(const PoolOptions& options) {
  auto pool = std::make_unique<CudaPool>(*this, options);
  const detail::LockGuard guard(pools_mutex_);
  pools_.push_back(pool.get());
  return *pool.release();
}

void CudaDevice::forget_pool(CudaPool& pool) noexcept {
  const detail::LockGuard guard(pools_mutex_);
  std::erase(pools_, &pool);
}

cudaMemPool_t CudaDevice::take_driver_pool(std::size_t max_size, bool shareable, const std::string& object,
                                           SourceLocation where) {
  // Out of the list meanwhile: a trim is no call for under its lock.
  std::vector<SparePool> spares;
  {
    const detail::LockGuard guard(pools_mutex_);
    const auto others = std::stable_partition(spare_pools_.begin(), spare_pools_.end(), [&](const SparePool& one) {
      return one.max_size != max_size || one.shareable != shareable;
    });
    spares.assign(others, spare_pools_.end());
    spare_pools_.erase(others, spare_pools_.end());
  }
  const auto empty = std::find_if(spares.begin(), spares.end(), [](const SparePool& spare) {
    cuuint64_t reserved = 1;
    note(cudaMemPoolTrimTo(spare.pool, 0));
    note(cudaMemPoolGetAttribute(spare.pool, cudaMemPoolAttrReservedMemCurrent, &reserved));
    return reserved == 0;
  });
  const cudaMemPool_t again = empty != spares.end() ? empty->pool : nullptr;
  if (again != nullptr) spares.erase(empty);
  {
    const detail::LockGuard guard(pools_mutex_);
    spare_pools_.insert(spare_pools_.end(), spares.begin(), spares.end());
  }
  if (again != nullptr) {
    cuuint64_t zero = 0;
    note(cudaMemPoolSetAttribute(again, cudaMemPoolAttrReservedMemHigh, &zero));
    return again;
  }
  // Never the driver's own default pool: other libraries of the process use that one, with thresholds of their own.
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location.type = cudaMemLocationTypeDevice;
  props.location.id = index_;
  props.maxSize = max_size;
  if (shareable) {
    int kinds = 0;
    check(cudaDeviceGetAttribute(&kinds, cudaDevAttrMemoryPoolSupportedHandleTypes, index_), "weir::Pool", object,
          where);
    if ((kinds & cudaMemHandleTypePosixFileDescriptor) == 0) {
      throw Error(Errc::not_supported, "weir::Pool", object, "the driver does not share this device's memory pools",
                  where);
    }
    props.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  }
  cudaMemPool_t pool = nullptr;
  check(cudaMemPoolCreate(&pool, &props), "weir::Pool", object, where);
  return pool;
}

void CudaDevice::keep_driver_pool(cudaMemPool_t pool, std::size_t max_size, bool shareable) noexcept {
  cuuint64_t nothing = 0;
  const DeviceScope scope(index_);
  note(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &nothing));
  note(cudaMemPoolTrimTo(pool, 0));
  try {
    const detail::LockGuard guard(pools_mutex_);
    spare_pools_.push_back({pool, max_size, shareable});
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

bool CudaDevice::peer_access(int peer) const {
  return peers_[static_cast<std::size_t>(peer)].load(std::memory_order_relaxed);
}
bool CudaDevice::reached_by(int peer) const {
  return reached_by_[static_cast<std::size_t>(peer)].load() || open_to_[static_cast<std::size_t>(peer)].load();
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
  peer.for_each_pool([&](CudaPool& pool) { pool.update_access(index_); });
}

}  // namespace weir::cuda
