// A communicator's life in NCCL: made at the first need, aborted when it has failed, destroyed behind its last call.
#include "backends/cuda/collectives/nccl_transport.hpp"

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <string>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_first_calls.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/peer_gather.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

constexpr const char* making = "weir::communicators";
constexpr std::size_t scratch_bytes = 256;  // more than there are ranks: each is a GPU of one host
/// The streams of one priority share hardware queues (R182): a lane must not be in one behind a stream that waits for it. Few streams
/// have this priority; those of waits between backends have the greatest.
constexpr int lane_priority = -4;

std::atomic<std::uint64_t> next_tag{1};

std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// NCCL leaves a device of its own current now and then.
class SameDevice {
 public:
  SameDevice() { known_ = cudaGetDevice(&before_) == cudaSuccess; }
  ~SameDevice() {
    if (known_) static_cast<void>(cudaSetDevice(before_));
  }
  SameDevice(const SameDevice&) = delete;
  SameDevice& operator=(const SameDevice&) = delete;

 private:
  int before_ = 0;
  bool known_;
};

/// Looks whether a stream has come to its part.
void look_at(detail::CollectivePart& part, NcclPart& own) noexcept {
  if (own.state() != NcclPart::State::deferred && own.ready != nullptr) {
    const DeviceScope scope(own.queue().device().index());
    const cudaError_t answer = cudaEventQuery(own.ready->get());
    note(answer == cudaErrorNotReady ? cudaErrorNotReady : answer);
    if (answer == cudaSuccess) part.ready_nanoseconds.store(now_nanoseconds(), std::memory_order_release);
  }
  own.attended.store(false, std::memory_order_release);
}

/// For who ends them, one way or the other. Nobody is at work on them then.
std::vector<NcclLibrary::Comm> take_comms(NcclRanks& ranks) noexcept {
  const detail::LockGuard guard(CallOrder::instance().lock());
  return std::exchange(ranks.comms, {});
}

/// Who ends communicators. It takes a while, and NCCL and the driver must not come down meanwhile: the end of the process waits for it,
/// though not for long, since it may wait for streams that are held. Made before the first communicator, so that this is in time.
class Endings {
 public:
  static Endings& instance() {
    static auto& endings = *new Endings;
    return endings;
  }
  /// False: the process is ending, and the communicator ends with it.
  bool begin() noexcept {
    const detail::LockGuard guard(mutex_);
    if (!closed_) ++running_;
    return !closed_;
  }
  void end() noexcept {
    const detail::LockGuard guard(mutex_);
    if (--running_ == 0) ended_.notify_all();
  }

 private:
  Endings() {
    static pid_t process;
    process = getpid();
    std::atexit([] {
      if (getpid() == process) instance().close();
    });
  }
  void close() noexcept {
    constexpr auto longest = std::chrono::seconds(3);
    let_all_parts_go();
    const auto until = std::chrono::steady_clock::now() + longest;
    const detail::LockGuard guard(mutex_);
    closed_ = true;
    while (running_ != 0) {
      if (ended_.wait_until(mutex_, until) == std::cv_status::timeout) return;
    }
  }

  detail::Mutex mutex_;
  std::condition_variable_any ended_;
  int running_ WEIR_GUARDED_BY(mutex_) = 0;
  bool closed_ WEIR_GUARDED_BY(mutex_) = false;
};

void abort_one(void* comm) noexcept {
  nccl().CommAbort(static_cast<NcclCommunicator*>(comm));
  Endings::instance().end();
}

/// Waits for what stands before its collectives, so each has a thread of its own.
void abort_all(NcclRanks& ranks) noexcept {
  for (NcclCommunicator* comm : take_comms(ranks)) {
    if (!Endings::instance().begin()) continue;
    try {
      start_thread([](void* one) { abort_one(one); }, comm);
    } catch (...) {
      abort_one(comm);
    }
  }
}

void end_all(NcclRanks& ranks) noexcept {
  if (!Endings::instance().begin()) return;
  for (NcclCommunicator* comm : take_comms(ranks)) nccl().CommDestroy(comm);
  for (std::size_t i = 0; i < ranks.lanes.size(); ++i) {
    CudaQueue& lane = *ranks.lanes[i];
    if (i < ranks.scratch.size()) {
      try {
        ranks.devices[i]->default_pool().release_unshared(lane, true, lane.owner(), ranks.scratch[i], {});
      } catch (...) {
        // Better kept than used when it is gone.
      }
    }
    lane.retire();
  }
  Endings::instance().end();
}

TaskThread& ender() {
  static auto& thread = *new TaskThread;
  return thread;
}

}  // namespace

void check_nccl(NcclResult answer, const char* call, SourceLocation where) {
  if (answer == NcclResult::success) return;
  throw Error(Errc::device_failed, making, call, std::string("NCCL says: ") + nccl().GetErrorString(answer), where);
}

NcclTransport::NcclTransport(std::vector<CudaDevice*> devices)
    : tag_(next_tag.fetch_add(1, std::memory_order_relaxed)), ranks_(std::make_shared<NcclRanks>()) {
  ranks_->devices = std::move(devices);
}

NcclTransport::~NcclTransport() {
  if (!ranks_->lanes.empty()) post(ender(), [ranks = ranks_] { end_all(*ranks); });
}

void NcclTransport::start(SourceLocation where) {
  const detail::LockGuard guard(CallOrder::instance().lock());
  make_ranks(where);
}

void NcclTransport::make_ranks(SourceLocation where) {
  NcclRanks& all = *ranks_;
  if (!all.comms.empty()) return;
  Endings::instance();
  const SameDevice same;
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
    all.scratch.push_back(device->default_pool().allocate(*all.lanes.back(), scratch_bytes, making, where));
  }
  std::vector<NcclLibrary::Comm> comms(all.devices.size());
  {
    const StackLimits limits(all);
    check_nccl(nccl().CommInitAll(comms.data(), static_cast<int>(comms.size()), numbers.data()), "ncclCommInitAll",
               where);
  }
  all.comms = std::move(comms);
  make_first_calls(all, where);
  prepare_copies(all, where);
}

NcclResult NcclTransport::error() const {
  for (NcclCommunicator* comm : ranks_->comms) {
    NcclResult error = NcclResult::success;
    if (nccl().CommGetAsyncError(comm, &error) != NcclResult::success) continue;
    if (error != NcclResult::success && error != NcclResult::in_progress) return error;
  }
  return NcclResult::success;
}

void NcclTransport::run(detail::CollectiveCall& call, std::size_t lane) {
  CallOrder::instance().add(*this, call, lane);
}

void NcclTransport::let_go(detail::CollectivePart& part) noexcept {
  if (part.own != nullptr) static_cast<NcclPart*>(part.own.get())->let_go(part.failure);
}

void NcclTransport::attend(detail::CollectiveCall& call) noexcept {
  for (detail::CollectivePart& part : call.parts()) {
    if (part.own == nullptr || part.ready_nanoseconds.load(std::memory_order_relaxed) != 0) continue;
    auto& own = *static_cast<NcclPart*>(part.own.get());
    if (own.attended.exchange(true, std::memory_order_acquire)) continue;
    if (own.state() == NcclPart::State::deferred) {
      post(CallOrder::holder(), [kept = part.own, &own] { own.queue().try_hold_deferred(); });
    }
    post(CallOrder::worker(), [this, kept = CallRef(call), &part, &own] {
      look_at(part, own);
      NcclResult wrong = NcclResult::success;
      {
        const detail::LockGuard guard(CallOrder::instance().lock());
        wrong = error();
      }
      if (wrong == NcclResult::success) return;
      kept->fail_all(Errc::rank_failed, std::string("NCCL says: ") + nccl().GetErrorString(wrong));
    });
  }
}

void NcclTransport::abandon() noexcept {
  if (abandoned_.exchange(true)) return;
  post(CallOrder::worker(), [ranks = ranks_] { abort_all(*ranks); });
}

}  // namespace weir::cuda
