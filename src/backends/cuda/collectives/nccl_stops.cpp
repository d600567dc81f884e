#include "backends/cuda/collectives/nccl_stops.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <list>
#include <utility>

#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"
#include "backends/cuda/streams/threads.hpp"

namespace weir::cuda {

namespace {

constexpr const char* stopping = "weir: the end of a communicator that failed";
/// The first version of which it is known that an abort waits for graphs.
constexpr int waits_for_graphs = 21400;

/// A communicator on its way to quiet.
struct Stop {
  Stop(std::shared_ptr<NcclRanks> its_ranks, std::vector<FailedRank> its_failed)
      : ranks(std::move(its_ranks)),
        failed(std::move(its_failed)),
        aborts(nccl().CommRevoke == nullptr),
        in_nccl(failed.size()) {}

  const std::shared_ptr<NcclRanks> ranks;
  const std::vector<FailedRank> failed;
  const bool aborts;  ///< else they are revoked
  std::list<AbortHold> holds;
  std::atomic<std::size_t> in_nccl;  ///< ranks of which NCCL is still asked
};

/// Those whose memory is still NCCL's.
class Failed {
 public:
  static Failed& instance() {
    static auto& failed = *new Failed;
    return failed;
  }
  void add(std::shared_ptr<Stop> stop) noexcept {
    try {
      const detail::LockGuard guard(mutex_);
      all_.push_back(std::move(stop));
    } catch (...) {
      // Without memory they stay.
    }
  }
  /// Null: there is none that can be freed.
  std::shared_ptr<Stop> take() noexcept {
    const detail::LockGuard guard(mutex_);
    const auto found = std::find_if(all_.begin(), all_.end(), [](const std::shared_ptr<Stop>& one) {
      return one->ranks->calls.size() == 0 && one->ranks->in_graphs.load(std::memory_order_acquire) == 0;
    });
    if (found == all_.end()) return nullptr;
    std::shared_ptr<Stop> taken = std::move(*found);
    all_.erase(found);
    return taken;
  }

 private:
  detail::Mutex mutex_;
  std::list<std::shared_ptr<Stop>> all_ WEIR_GUARDED_BY(mutex_);
};

struct StopOfRank {
  std::shared_ptr<Stop> stop;
  NcclLibrary::Comm comm;
};

/// Of those that are aborted the last one is held.
void leave(const std::shared_ptr<Stop>& stop) noexcept {
  const std::size_t left = stop->in_nccl.fetch_sub(1, std::memory_order_acq_rel) - 1;
  stop->in_nccl.notify_all();
  if (left == 0 && !stop->aborts) Failed::instance().add(stop);
  if (left == (stop->aborts ? 1 : 0)) Stops::instance().end();
}

/// On a thread of its own: it may wait for what stands before the rank's collectives.
void stop_rank(void* argument) noexcept {
  const std::unique_ptr<StopOfRank> one(static_cast<StopOfRank*>(argument));
  one->stop->aborts ? nccl().CommAbort(one->comm) : nccl().CommRevoke(one->comm, 0);
  leave(one->stop);
}

cudaError_t capture_own_exchange(const FailedRank& rank, cudaStream_t stream, cudaGraph_t& graph, NcclResult& said) {
  const cudaError_t begun = cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
  if (begun != cudaSuccess) return begun;
  said = nccl().GroupStart();
  char* const bytes = static_cast<char*>(rank.scratch);
  if (said == NcclResult::success) {
    said = nccl().Send(bytes, 1, NcclType::u8, rank.rank, rank.comm, stream);
    if (said == NcclResult::success) said = nccl().Recv(bytes + 1, 1, NcclType::u8, rank.rank, rank.comm, stream);
    const NcclResult end = nccl().GroupEnd();
    if (said == NcclResult::success) said = end;
  }
  return cudaStreamEndCapture(stream, &graph);
}

}  // namespace

Stops& Stops::instance() {
  static auto& stops = *new Stops;
  return stops;
}

Stops::Stops() {
  static pid_t process;
  process = getpid();
  std::atexit([] {
    if (getpid() == process) instance().close();
  });
}

bool Stops::begin() noexcept {
  const detail::LockGuard guard(mutex_);
  if (!closed_) ++running_;
  return !closed_;
}

void Stops::end() noexcept {
  const detail::LockGuard guard(mutex_);
  if (--running_ == 0) ended_.notify_all();
}

void Stops::close() noexcept {
  constexpr auto longest = std::chrono::seconds(3);
  let_all_parts_go();
  const auto until = std::chrono::steady_clock::now() + longest;
  const detail::LockGuard guard(mutex_);
  closed_ = true;
  while (running_ != 0) {
    if (ended_.wait_until(mutex_, until) == std::cv_status::timeout) return;
  }
}

AbortHold::AbortHold(const FailedRank& rank) : device_(rank.device->index()) {
  int version = 0;
  check_nccl(nccl().GetVersion(&version), "ncclGetVersion", {});
  if (version < waits_for_graphs) {
    throw Error(Errc::not_supported, stopping, rank.device->name(), "NCCL is older than 2.14", {});
  }
  const DeviceScope scope(device_);
  CudaQueue& queue = rank.device->take_capture_queue(0);
  NcclResult said = NcclResult::success;
  const cudaError_t answer = capture_own_exchange(rank, queue.stream({}), graph_, said);
  rank.device->give_capture_queue(queue);
  if (answer != cudaSuccess) note(answer);
  if (answer == cudaSuccess && said == NcclResult::success) return;
  if (graph_ != nullptr) note(cudaGraphDestroy(graph_));
  check_nccl(said, "a call of NCCL", {});
  check(answer, stopping, rank.device->name(), {});
}

AbortHold::~AbortHold() {
  const DeviceScope scope(device_);
  note(cudaGraphDestroy(graph_));
}

void set_free(std::shared_ptr<NcclRanks> ranks, std::vector<FailedRank> failed) {
  if (failed.empty()) return;
  const auto stop = std::make_shared<Stop>(std::move(ranks), std::move(failed));
  for (const FailedRank& rank : stop->failed) {
    if (stop->aborts) stop->holds.emplace_back(rank);
  }
  if (!Stops::instance().begin()) return;
  if (stop->aborts) Failed::instance().add(stop);
  if (stop->aborts && stop->failed.size() == 1) Stops::instance().end();
  for (const FailedRank& rank : stop->failed) {
    try {
      auto one = std::make_unique<StopOfRank>(StopOfRank{stop, rank.comm});
      start_thread(stop_rank, one.get());
      static_cast<void>(one.release());
    } catch (...) {
      leave(stop);  // without a thread its kernels wait until their ranks come
    }
  }
}

void free_what_failed() {
  Stops::instance();
  while (const std::shared_ptr<Stop> stop = Failed::instance().take()) {
    const detail::LockGuard guard(group_launches());
    if (!stop->aborts) {
      for (const FailedRank& rank : stop->failed) nccl().CommDestroy(rank.comm);
      continue;
    }
    stop->holds.clear();
    for (std::size_t left = stop->in_nccl.load(); left != 0; left = stop->in_nccl.load()) stop->in_nccl.wait(left);
  }
}

}  // namespace weir::cuda
