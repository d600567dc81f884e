#include "backends/cuda/collectives/nccl_ranks.hpp"

#include <atomic>
#include <string>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_first_calls.hpp"
#include "backends/cuda/collectives/nccl_stops.hpp"
#include "backends/cuda/collectives/peer_gather.hpp"
#include "backends/cuda/collectives/standing_waits.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

constexpr const char* making = "weir::communicators";
constexpr std::size_t scratch_bytes = 256;  // more than there are ranks: each is a GPU of one host
/// NCCL leaves a device of its own current now and then.
class SameContext {
 public:
  SameContext() {
    if (driver().current_context(&before_) != CUDA_SUCCESS) before_ = nullptr;
  }
  ~SameContext() {
    if (before_ != nullptr) {
      static_cast<void>(driver().set_context(before_));
    } else {
      static_cast<void>(cudaSetDevice(device_));
    }
  }
  SameContext(const SameContext&) = delete;
  SameContext& operator=(const SameContext&) = delete;

 private:
  CUcontext before_ = nullptr;
  const int device_ = current_device();
};

/// What is with NCCL when a communicator fails has its other halves, and nearly always ends at once.
constexpr std::chrono::milliseconds patience{100};

/// Those that nobody has.
class KeptRanks {
 public:
  static KeptRanks& instance() {
    static auto& kept = *new KeptRanks;
    return kept;
  }
  std::shared_ptr<NcclRanks> take(const std::vector<CudaDevice*>& devices) {
    const detail::LockGuard guard(mutex_);
    for (auto& one : kept_) {
      if (one->devices != devices) continue;
      std::swap(one, kept_.back());
      auto found = std::move(kept_.back());
      kept_.pop_back();
      return found;
    }
    return nullptr;
  }
  void keep(std::shared_ptr<NcclRanks> ranks) noexcept {
    try {
      const detail::LockGuard guard(mutex_);
      kept_.push_back(std::move(ranks));
    } catch (...) {
      // Without memory: the next one is made anew.
    }
  }

 private:
  detail::Mutex mutex_;
  std::vector<std::shared_ptr<NcclRanks>> kept_ WEIR_GUARDED_BY(mutex_);
};

TaskThread& ender() {
  static auto& thread = *new TaskThread;
  return thread;
}

void look_if_stuck(const std::shared_ptr<NcclRanks>& ranks, std::uint64_t owner) {
  {
    // Who hands a call over at this moment is through behind this, and nobody begins.
    const detail::LockGuard guard(ranks->in_use);
  }
  if (!ranks->calls.give_up_after(patience, owner)) return;
  std::vector<FailedRank> failed;
  {
    const detail::LockGuard guard(ranks->in_use);
    for (std::size_t r = 0; r < ranks->comms.size(); ++r) {
      failed.push_back({ranks->devices[r], ranks->comms[r], static_cast<int>(r), ranks->scratch[r]});
    }
    ranks->comms.clear();
    ranks->boxes.stop();
  }
  set_free(ranks, std::move(failed));
}

}  // namespace

void CallsWithNccl::add() noexcept {
  const detail::LockGuard guard(mutex_);
  ++count_;
}

void CallsWithNccl::remove() noexcept {
  const detail::LockGuard guard(mutex_);
  if (--count_ == 0) none_.notify_all();
}

std::size_t CallsWithNccl::size() const noexcept {
  const detail::LockGuard guard(mutex_);
  return count_;
}

void CallsWithNccl::belong_to_another() {
  const detail::LockGuard guard(mutex_);
  ++owner_;
}

std::uint64_t CallsWithNccl::owner() const {
  const detail::LockGuard guard(mutex_);
  return owner_;
}

bool CallsWithNccl::give_up_after(std::chrono::milliseconds time, std::uint64_t owner) {
  const auto until = std::chrono::steady_clock::now() + time;
  const detail::LockGuard guard(mutex_);
  while (owner_ == owner && count_ != 0) {
    if (none_.wait_until(mutex_, until) == std::cv_status::timeout) break;
  }
  if (owner_ != owner || count_ == 0) return false;
  return given_up_ = true;
}

bool CallsWithNccl::given_up() const noexcept {
  const detail::LockGuard guard(mutex_);
  return given_up_;
}

void check_nccl(NcclResult answer, const char* call, SourceLocation where) {
  if (answer == NcclResult::success) return;
  throw Error(Errc::device_failed, making, call, std::string("NCCL says: ") + nccl().GetErrorString(answer), where);
}

void make_ranks(NcclRanks& all, SourceLocation where) {
  if (all.made.load(std::memory_order_relaxed)) return;
  const SameContext same;
  const DeviceScope first(all.devices.front()->index());  // NCCL calls the runtime, and not in a thread's own context
  std::vector<int> numbers;
  for (CudaDevice* device : all.devices) {
    const DeviceScope scope(device->index());
    device->start(where);
    numbers.push_back(device->index());
    for (CudaDevice* peer : all.devices) {
      if (peer != device) device->open_pools_to(*peer);
    }
  }
  for (CudaDevice* device : all.devices) {
    if (all.lanes.size() == all.devices.size()) break;
    QueueOptions options;
    options.kind = QueueOptions::Kind::internal;
    options.blocking = false;
    options.priority = lane_priority;
    options.label = "collectives on " + device->name();
    all.lanes.push_back(&device->open_queue(options));
  }
  for (CudaQueue* lane : all.lanes) {
    if (all.scratch.size() == all.devices.size()) break;
    all.scratch.push_back(lane->device().default_pool().allocate(*lane, scratch_bytes, making, where));
  }
  if (all.comms.empty()) {
    free_what_failed();
    std::vector<NcclLibrary::Comm> comms(all.devices.size());
    {
      const StackLimits limits(all.devices);
      check_nccl(nccl().CommInitAll(comms.data(), static_cast<int>(comms.size()), numbers.data()), "ncclCommInitAll",
                 where);
    }
    all.comms = std::move(comms);
    std::vector<FirstCaller> callers;
    for (std::size_t r = 0; r < all.comms.size(); ++r) {
      callers.push_back({r, all.comms.size(), all.comms[r], static_cast<char*>(all.scratch[r]), all.lanes[r]});
    }
    make_first_calls(callers, where);
    prepare_copies(all, where);
  }
  all.boxes.make(all.devices, all.lanes, where);
  all.made.store(true, std::memory_order_release);
}

void make_unless_made(NcclRanks& ranks, SourceLocation where) {
  // Who has the lock makes them itself, where it needs them.
  if (CallOrder::is_mine()) return;
  while (!ranks.made.load(std::memory_order_acquire)) {
    {
      const CallOrderLock order(true);
      const detail::LockGuard guard(ranks.in_use);
      const Making making(!ranks.comms.empty());
      if (making.begun()) return make_ranks(ranks, where);
    }
    StandingWaits::instance().wait_until_gone();
  }
}

std::shared_ptr<const void> keep_for_graph(const std::shared_ptr<NcclRanks>& ranks) {
  ranks->in_graphs.fetch_add(1, std::memory_order_acq_rel);
  return std::shared_ptr<const void>(
      ranks.get(), [ranks](const void*) { ranks->in_graphs.fetch_sub(1, std::memory_order_acq_rel); });
}

std::shared_ptr<NcclRanks> take_ranks(std::vector<CudaDevice*> devices) {
  if (auto kept = KeptRanks::instance().take(devices)) {
    kept->calls.belong_to_another();
    return kept;
  }
  auto made = std::make_shared<NcclRanks>();
  made->devices = std::move(devices);
  return made;
}

void put_away(std::shared_ptr<NcclRanks> ranks) noexcept {
  if (ranks->lanes.empty()) return;
  const bool usable = !ranks->calls.given_up() && !ranks->comms.empty() && error_of(*ranks) == NcclResult::success;
  ranks->made.store(false, std::memory_order_relaxed);  // but for the scratch memory
  const auto release = [lanes = ranks->lanes, scratch = std::exchange(ranks->scratch, {}), usable] {
    for (std::size_t i = 0; i < lanes.size(); ++i) {
      CudaQueue& lane = *lanes[i];
      if (i < scratch.size()) {
        try {
          lane.device().default_pool().release_unshared(lane, true, lane.owner(), scratch[i], {});
        } catch (...) {
          // Better kept than used when it is gone.
        }
      }
      if (!usable) lane.retire();
    }
  };
  post(ender(), release);
  if (usable) KeptRanks::instance().keep(std::move(ranks));
}

void stop_if_stuck(const std::shared_ptr<NcclRanks>& ranks) noexcept {
  struct Look {
    std::shared_ptr<NcclRanks> ranks;
    std::uint64_t owner;
  };
  try {
    auto look = std::make_unique<Look>(Look{ranks, ranks->calls.owner()});
    start_thread(
        [](void* argument) {
          const std::unique_ptr<Look> one(static_cast<Look*>(argument));
          try {
            look_if_stuck(one->ranks, one->owner);
          } catch (...) {
            // Without memory what is stuck stays so until its ranks' streams come.
          }
        },
        look.get());
    static_cast<void>(look.release());
  } catch (...) {
    // Without memory or a thread: as above.
  }
}

NcclResult error_of(const NcclRanks& ranks) {
  for (NcclCommunicator* comm : ranks.comms) {
    NcclResult error = NcclResult::success;
    if (nccl().CommGetAsyncError(comm, &error) != NcclResult::success) continue;
    if (error != NcclResult::success && error != NcclResult::in_progress) return error;
  }
  return NcclResult::success;
}

}  // namespace weir::cuda
