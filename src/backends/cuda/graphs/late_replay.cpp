// Launches of graphs with collectives: in the order of all collectives of their GPUs, and never behind what may yet fail.
#include "backends/cuda/graphs/late_replay.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/collectives/stream_order.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/driver.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/poller.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "recycled.hpp"

namespace weir::cuda {

namespace {

constexpr const char* launching = "weir::Graph::launch";

/// Keeps what the lane uses until it is through.
class ReplayEnd final : public Reached {
 public:
  ReplayEnd(std::shared_ptr<NcclPart> part, std::shared_ptr<StockEvent> end)
      : part_(std::move(part)), end_(std::move(end)) {}
  void reached(cudaError_t) noexcept override { CallOrder::instance().look_if_any_wait(); }

 private:
  std::shared_ptr<NcclPart> part_;
  std::shared_ptr<StockEvent> end_;
};

/// All that wait.
struct LateReplays {
  static LateReplays& instance() {
    static auto& all = *new LateReplays;
    return all;
  }
  void remove(const LateReplay& replay) noexcept {
    const detail::LockGuard guard(mutex);
    std::erase_if(replays, [&](const auto& one) { return one.get() == &replay; });
  }
  detail::Mutex mutex;
  std::vector<std::shared_ptr<LateReplay>> replays WEIR_GUARDED_BY(mutex);
};

std::shared_ptr<const Error> error_of_present(SourceLocation where) {
  try {
    throw;
  } catch (const Error& error) {
    return std::make_shared<const Error>(error);
  } catch (...) {
    return std::make_shared<const Error>(Errc::out_of_memory, launching, "graph", "no memory left to launch it", where);
  }
}

}  // namespace

LateReplay::LateReplay(CudaGraph& graph, std::shared_ptr<NcclPart> part, SourceLocation where)
    : graph_(graph),
      part_(std::move(part)),
      where_(where),
      communicator_failed_(std::make_shared<const Error>(
          Errc::rank_failed, launching, "stream '" + part_->queue().label() + "'",
          "a communicator of the graph failed before the launch's turn came: its calls say why", where)) {}

const std::vector<NcclTransport*>& LateReplay::transports() const { return graph_.transports(); }

void LateReplay::note(const std::shared_ptr<LateReplay>& replay, std::uint64_t number) {
  replay->number_ = number;
  const detail::LockGuard guard(LateReplays::instance().mutex);
  LateReplays::instance().replays.push_back(replay);
}

std::vector<detail::WaitingLaunch> LateReplay::waiting_of(const NcclTransport& transport) {
  std::vector<detail::WaitingLaunch> all;
  const detail::LockGuard guard(LateReplays::instance().mutex);
  for (const auto& replay : LateReplays::instance().replays) {
    const auto& theirs = replay->transports();
    if (std::find(theirs.begin(), theirs.end(), &transport) == theirs.end()) continue;
    const std::int64_t ready = replay->ready_nanoseconds_.load(std::memory_order_acquire);
    all.push_back(
        {replay.get(), &replay->part_->queue(), replay->part_->place(), replay->number_, ready, replay->where_});
    if (ready == 0 && !replay->attended_.exchange(true)) post(CallOrder::looker(), [replay] { replay->attend(); });
  }
  return all;
}

void LateReplay::attend() noexcept {
  if (part_->came()) {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    ready_nanoseconds_.store(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(),
                             std::memory_order_release);
  }
  attended_.store(false);
}

void LateReplay::launch(LastHanded& last) noexcept {
  LateReplays::instance().remove(*this);
  part_->set_written_by_lane(true);
  try {
    graph_.hand_over(*this, last);
  } catch (...) {
    part_->set_written_by_lane(false);
    return drop(error_of_present(where_));
  }
  part_->let_go(nullptr);
  graph_.end_late();
}

void LateReplay::drop(std::shared_ptr<const Error> failure) noexcept {
  LateReplays::instance().remove(*this);
  part_->let_go(failure);
  if (calls_place_ != 0) part_->failures().settle(calls_place_, nullptr);
  graph_.end_late();
}

void CudaGraph::note_collectives(const detail::GraphForm& form) {
  for (const detail::FormNode& node : form.nodes) {
    const auto* const launch = node.payload ? std::get_if<Launch>(&node.payload->op()) : nullptr;
    const auto* const collective = launch != nullptr ? detail::captured_collective_of(*launch) : nullptr;
    if (collective == nullptr) continue;
    auto& transport = static_cast<NcclTransport&>(collective->transport());
    if (std::find(transports_.begin(), transports_.end(), &transport) != transports_.end()) continue;
    transports_.push_back(&transport);
    collectives_.push_back(node.payload.shared());
    for (CudaDevice* device : transport.ranks()->devices) {
      const int index = device->index();
      if (std::find(ranks_devices_.begin(), ranks_devices_.end(), index) == ranks_devices_.end()) {
        ranks_devices_.push_back(index);
      }
    }
  }
}

/// Where nothing before it in the stream can fail any more, and no earlier collective waits, the driver gets it at once.
void CudaGraph::launch_in_order(CudaQueue& queue, SourceLocation where, Watched& watched) {
  {
    CallOrder& order = CallOrder::instance();
    const detail::LockGuard in_order(order.lock());
    const CallOrder::Mine mine;
    if (!queue.failures().in_doubt() && !order.any_wait(transports_)) {
      const detail::LockGuard lock(mutex_);
      const cudaStream_t stream = queue.stream(where);
      come_behind_collectives(stream, queue, order.last(), where);
      if (replay_end_in_ != &queue || replay_end_ == nullptr) {
        replay_end_ = detail::make_recycled<StockEvent>(queue.device(), false, where);
        replay_end_in_ = &queue;
      }
      replay(queue, where, watched);
      check(record_in(stream, replay_end_->get(), queue.device().index()), launching, queue.label(), where);
      note_last(order.last(), replay_end_, &queue);
      return;
    }
  }
  launch_late(queue, where, watched);
}

/// No lock is held while the stream gets what may wait for room there: what makes room may need the lock.
void CudaGraph::launch_late(CudaQueue& queue, SourceLocation where, Watched& watched) {
  watched.begin_replay(false);
  queue.ensure_flag(where);
  make_end(transports_.front()->ranks()->devices.front()->index(), where);
  const auto part = detail::make_recycled<NcclPart>(queue);
  const auto replay = std::make_shared<LateReplay>(*this, part, where);
  part->hold(where);
  std::vector<CudaEvent*> events;
  {
    const detail::LockGuard lock(mutex_);
    events = graph_->recorded_events();
    if (graph_->has_calls()) replay->calls_place_ = queue.failures().open_place();
    replay->driver_graph_ = graph_.get();
    replay->instance_ = instance_.get();
    ++late_;
  }
  try {
    // Who waits for them from here on waits for all of the replay.
    for (CudaEvent* event : events) queue.record(*event, where);
    CallOrder::instance().add(replay);
  } catch (...) {
    replay->drop(nullptr);
    throw;
  }
}

void CudaGraph::hand_over(LateReplay& late, LastHanded& last) {
  const SourceLocation where = late.where_;
  const detail::LockGuard lock(mutex_);
  CudaQueue& lane = *transports_.front()->ranks()->lanes.front();
  const int device = lane.device().index();
  const DeviceScope scope(device);
  const RoomCall room;
  const cudaStream_t stream = lane.stream(where);
  const auto end = detail::make_recycled<StockEvent>(lane.device(), false, where);
  std::unique_ptr<Reached> reached = std::make_unique<ReplayEnd>(late.part_, end);
  wait_in(stream, late.part_->ready->get(), device, where);
  come_behind_collectives(stream, lane, last, where);
  // Replays of other instances, too. No more of that stream, which may wait for this one.
  if (launched_ && end_known_) wait_in(stream, done_[static_cast<std::size_t>(last_device_)].get(), device, where);
  const bool present = late.instance_ == instance_.get();
  if (present) note_times(false);
  FailureState& failures = late.part_->failures();
  if (late.calls_place_ != 0) late.driver_graph_->replays().launched(failures, late.calls_place_);
  const cudaError_t answer = launch_instance(late.instance_, stream);
  if (answer != cudaSuccess) {
    if (late.calls_place_ != 0) late.driver_graph_->replays().take_back_launch();
    refuse(answer, launching, late.part_->queue().label(), where);
  }
  late.calls_place_ = 0;  // the replay's own from here on
  last_queue_ = {&lane, lane.owner()};
  behind_ = present ? Place{} : last_queue_;
  launched_ = true;
  last_guarded_ = times_copied_ = false;
  if (tracked_) note_end(device, stream);
  check(write_word(stream, *late.part_, device), launching, lane.label(), where);
  check(record_in(stream, end->get(), device), launching, lane.label(), where);
  note_last(last, end, nullptr);
  Poller::instance().add(&lane, device, end->get(), reached);
}

void CudaGraph::end_late() noexcept {
  const detail::LockGuard lock(mutex_);
  --late_;
}

/// Behind the last collective of each GPU that it has ranks on.
void CudaGraph::come_behind_collectives(cudaStream_t stream, const CudaQueue& queue, const LastHanded& last,
                                        SourceLocation where) {
  const StockEvent* seen = nullptr;
  for (const int device : ranks_devices_) {
    if (static_cast<std::size_t>(device) >= last.devices.size()) continue;
    const LastHanded::OfDevice& before = last.devices[static_cast<std::size_t>(device)];
    if (before.end == nullptr || before.stands_in(queue) || before.end.get() == seen) continue;
    wait_in(stream, before.end->get(), device, where);
    seen = before.end.get();
  }
}

void CudaGraph::note_last(LastHanded& last, const std::shared_ptr<StockEvent>& end, const CudaQueue* in) const {
  last.devices.resize(std::max(last.devices.size(), static_cast<std::size_t>(driver().device_count)));
  const StreamId owner = in != nullptr ? in->owner() : 0;
  for (const int device : ranks_devices_) last.devices[static_cast<std::size_t>(device)] = {0, false, end, in, owner};
}

}  // namespace weir::cuda
