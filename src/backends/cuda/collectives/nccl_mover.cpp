#include "backends/cuda/collectives/nccl_mover.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <utility>

#include <weir/collectives.hpp>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_calls.hpp"
#include "backends/cuda/collectives/nccl_first_calls.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "backends/cuda/collectives/nccl_stops.hpp"
#include "backends/cuda/collectives/rank_boxes.hpp"
#include "backends/cuda/collectives/rank_transport.hpp"
#include "backends/cuda/collectives/staging.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/group_launches.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/threads.hpp"
#include "hash.hpp"

namespace weir::cuda {

using detail::CollectiveKind;
using detail::CollectiveRequest;
using detail::RankMove;

/// Of one communicator at a time.
struct NcclRank {
  NcclRank(CudaDevice& its_device, int its_rank, int its_size, std::string its_key, std::string its_token)
      : device(its_device), rank(its_rank), size(its_size), key(std::move(its_key)), token(std::move(its_token)) {}

  CudaDevice& device;
  const int rank;
  const int size;
  const std::string key;                 ///< what its ranks made it of
  const std::string token;               ///< the key, in short
  TaskThread& thread = *new TaskThread;  ///< whoever calls NCCL; it lives as long as the process
  CudaQueue* lane = nullptr;
  void* scratch = nullptr;
  RankBoxes boxes;

  detail::Mutex mutex;  ///< while NCCL is called
  NcclLibrary::Comm comm WEIR_GUARDED_BY(mutex) = nullptr;
  bool stopped WEIR_GUARDED_BY(mutex) = false;
};

namespace {

constexpr const char* moving = "weir: a collective";
constexpr std::size_t token_length = 16;
constexpr std::size_t most_tokens = 48;
/// What is shorter is there sooner as a message.
constexpr std::size_t least_bytes = 32 * 1024;

/// Of communicators that are gone: their ranks' processes have them all, or none.
class KeptNcclRanks {
 public:
  static KeptNcclRanks& instance() {
    static auto& kept = *new KeptNcclRanks;
    return kept;
  }
  std::string tokens(const CudaDevice& device, int rank, int size) {
    const detail::LockGuard guard(mutex_);
    std::string all;
    for (const auto& one : kept_) {
      const bool fits = &one->device == &device && one->rank == rank && one->size == size;
      if (fits && all.size() < most_tokens * token_length) all += one->token;
    }
    return all;
  }
  std::shared_ptr<NcclRank> take(std::string_view token) {
    const detail::LockGuard guard(mutex_);
    const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const auto& one) { return one->token == token; });
    if (found == kept_.end()) return nullptr;
    auto taken = std::move(*found);
    kept_.erase(found);
    return taken;
  }
  void keep(std::shared_ptr<NcclRank> rank) noexcept {
    try {
      const detail::LockGuard guard(mutex_);
      kept_.push_back(std::move(rank));
    } catch (...) {
      // Without memory: the next one is made anew.
    }
  }

 private:
  detail::Mutex mutex_;
  std::list<std::shared_ptr<NcclRank>> kept_ WEIR_GUARDED_BY(mutex_);
};

std::string hex_of(const void* data, std::size_t bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) {
    const unsigned char one = static_cast<const unsigned char*>(data)[i];
    text += digits[one >> 4];
    text += digits[one & 15];
  }
  return text;
}

std::string token_of(std::string_view key) {
  detail::Hash hash;
  hash.add(key);
  const std::uint64_t value = hash.value();
  return hex_of(&value, sizeof value);
}

/// Waits for the other ranks.
void open_rank(NcclRank& rank) {
  rank.device.start({});
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.priority = lane_priority;
  options.label = "collectives on " + rank.device.name();
  rank.lane = &rank.device.open_queue(options);
  const auto size = static_cast<std::size_t>(rank.size);
  rank.scratch = rank.device.default_pool().allocate(*rank.lane, size + 1, moving, {});
  const DeviceScope scope(rank.device.index());
  NcclUniqueId id;
  std::memcpy(&id, rank.key.data(), sizeof id);
  NcclLibrary::Comm comm = nullptr;
  {
    const std::vector<CudaDevice*> devices{&rank.device};
    const StackLimits limits(devices);
    check_nccl(nccl().CommInitRank(&comm, rank.size, id, rank.rank), "ncclCommInitRank", {});
  }
  const detail::LockGuard guard(rank.mutex);
  if (rank.stopped) throw Error(Errc::rank_failed, moving, "ncclCommInitRank", "the communicator has failed", {});
  rank.comm = comm;
  const auto number = static_cast<std::size_t>(rank.rank);
  auto* const scratch = static_cast<char*>(rank.scratch);
  const FirstCaller caller{number, size, comm, scratch, rank.lane};
  make_first_calls({caller}, {});
  rank.boxes.open(caller, {});
}

void hand_over(NcclRank& rank, detail::CollectiveCall& call, const std::shared_ptr<RankMove>& move) {
  const detail::CollectiveShare share = call.share(0);
  const RoomCall room;
  const DeviceScope scope(rank.device.index());
  CudaQueue& lane = *rank.lane;
  const cudaStream_t stream = lane.stream(share.where);
  Staging staging(share.where);
  const auto [from, to] = staging.bring_in(lane, share);
  {
    const detail::LockGuard guard(rank.mutex);
    if (rank.stopped) return move->fail("the communicator has failed");
    const detail::LockGuard whole(group_launches());
    check_nccl(nccl().GroupStart(), "ncclGroupStart", share.where);
    const NcclResult answer = call_nccl_for(
        share, {rank.comm, static_cast<std::size_t>(rank.rank), static_cast<std::size_t>(rank.size), from, to, stream});
    const NcclResult end = nccl().GroupEnd();
    check_nccl(answer, "a call of NCCL", share.where);
    check_nccl(end, "ncclGroupEnd", share.where);
  }
  staging.take_out();
  tell_when_over(lane, call, move, share.where);
}

/// Its kernels are set free; on a thread of its own. What NCCL has of it stays until the process ends: ranks that are other processes
/// free theirs when they like, and each would wait for its GPU with the driver's lock held.
void stop(NcclRank& rank) noexcept {
  NcclLibrary::Comm comm = nullptr;
  {
    const detail::LockGuard guard(rank.mutex);
    rank.stopped = true;
    comm = std::exchange(rank.comm, nullptr);
  }
  if (comm == nullptr || !Stops::instance().begin()) return;
  if (nccl().CommRevoke != nullptr) {
    nccl().CommRevoke(comm, 0);
    return Stops::instance().end();
  }
  try {
    const AbortHold hold({&rank.device, comm, rank.rank, rank.scratch});
    Stops::instance().end();
    nccl().CommAbort(comm);  // the end of it comes with the process
    return;
  } catch (...) {
    // NCCL takes no calls any more.
  }
  {
    const detail::LockGuard guard(group_launches());
    nccl().CommAbort(comm);
  }
  Stops::instance().end();
}

}  // namespace

NcclMover::~NcclMover() {
  const bool usable = rank_ != nullptr && !abandoned_.load(std::memory_order_acquire) && !rank_->boxes.spoiled();
  if (usable) KeptNcclRanks::instance().keep(std::move(rank_));
}

std::string NcclMover::offer(int rank, int size) { return KeptNcclRanks::instance().tokens(device_, rank, size); }

std::string NcclMover::make_key(const std::vector<std::string>& offers) {
  for (std::size_t at = 0; at + token_length <= offers.front().size(); at += token_length) {
    const std::string token = offers.front().substr(at, token_length);
    const bool all = std::all_of(offers.begin(), offers.end(),
                                 [&](const std::string& one) { return one.find(token) % token_length == 0; });
    if (all) return token;
  }
  NcclUniqueId id;
  check_nccl(nccl().GetUniqueId(&id), "ncclGetUniqueId", {});
  return {id.bytes, sizeof id};
}

void NcclMover::open(const std::string& key, int rank, int size, std::shared_ptr<RankMove> opened) noexcept {
  try {
    if (key.size() != sizeof(NcclUniqueId)) {
      rank_ = KeptNcclRanks::instance().take(key);
      if (rank_ == nullptr) return opened->fail("it is not kept");
      opened->state.store(RankMove::State::done, std::memory_order_release);
      return;
    }
    rank_ = std::make_shared<NcclRank>(device_, rank, size, key, token_of(key));
    if (!Stops::instance().begin()) return opened->fail("the process is ending");
    std::unique_ptr<Task> task = make_task([made = rank_, opened] {
      try {
        open_rank(*made);
        opened->state.store(RankMove::State::done, std::memory_order_release);
      } catch (const std::exception& error) {
        opened->fail(error.what());
      }
      Stops::instance().end();
    });
    try {
      rank_->thread.post(task);
    } catch (...) {
      Stops::instance().end();
      throw;
    }
  } catch (const std::exception& error) {
    opened->fail(error.what());
  }
}

bool NcclMover::launches(const CollectiveRequest& request) const { return rank_->boxes.suit(request); }
RankBoxes& NcclMover::boxes() { return rank_->boxes; }

bool NcclMover::moves(const CollectiveRequest& request) const {
  switch (request.kind) {
    case CollectiveKind::send:
    case CollectiveKind::receive:
    case CollectiveKind::barrier: return false;
    case CollectiveKind::all_to_all: return true;  // ranks have different counts
    default: break;
  }
  // What each rank has in each.
  const bool out = request.kind == CollectiveKind::broadcast || request.kind == CollectiveKind::reduce_scatter ||
                   request.kind == CollectiveKind::scatter;
  const detail::CollectiveOperand& one = out ? request.out : request.in;
  return one.count() * one.layout.element_bytes >= least_bytes;
}

void NcclMover::move(detail::CollectiveCall& call, std::shared_ptr<RankMove> move) noexcept {
  try {
    std::unique_ptr<Task> task = make_task([rank = rank_, kept = std::make_shared<CallRef>(call), move] {
      try {
        hand_over(*rank, **kept, move);
      } catch (const std::exception& error) {
        move->fail(error.what());
        (*kept)->look_again();
      }
    });
    rank_->thread.post(task);
  } catch (const std::exception& error) {
    move->fail(error.what());
  }
}

void NcclMover::abandon() noexcept {
  if (abandoned_.exchange(true) || rank_ == nullptr) return;
  auto kept = std::make_unique<std::shared_ptr<NcclRank>>(rank_);
  try {
    start_thread(
        [](void* argument) {
          const std::unique_ptr<std::shared_ptr<NcclRank>> one(static_cast<std::shared_ptr<NcclRank>*>(argument));
          stop(**one);
        },
        kept.get());
    static_cast<void>(kept.release());
  } catch (...) {
    // Without a thread its kernels wait until their ranks come.
  }
}

std::string mover_of(const CudaDevice& device) {
  cudaDeviceProp facts{};
  int version = 0;
  const bool is_there = nccl().why_absent.empty() && nccl().GetVersion(&version) == NcclResult::success &&
                        cudaGetDeviceProperties(&facts, device.index()) == cudaSuccess;
  if (!is_there) return {};
  return "NCCL " + std::to_string(version) + " " + hex_of(&facts.uuid, sizeof facts.uuid);
}

}  // namespace weir::cuda
