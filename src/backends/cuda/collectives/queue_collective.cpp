// A queue's side of collectives: a rank's part is deferred as long as nothing comes behind it, and else a wait.
#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "backends/cuda/collectives/call_order.hpp"
#include "backends/cuda/collectives/nccl_mover.hpp"
#include "backends/cuda/collectives/nccl_part.hpp"
#include "backends/cuda/collectives/nccl_ranks.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/collectives/rank_boxes.hpp"
#include "backends/cuda/collectives/rank_transport.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/room.hpp"
#include "backends/cuda/streams/signals.hpp"
#include "recycled.hpp"

namespace weir::cuda {

namespace {

constexpr const char* collective = "weir: a collective";

NcclPart& part_of(const detail::CollectivePart& part) { return *static_cast<NcclPart*>(part.own.get()); }

}  // namespace

void CudaQueue::submit_collective(const Command& command, detail::CollectivePart& part,
                                  std::shared_ptr<PartTimes> times) {
  const SourceLocation where = command.where;
  check_no_foreign_capture(collective, where);
  ensure_flag(where);
  if (part.call->launch() != nullptr && !skips_all()) return launch_collective(part, std::move(times), where);
  RankBoxes::launch_gathered();
  // Commands of others may come behind it without a word to us.
  const bool known = handle_known_.load(std::memory_order_relaxed);
  const bool told = part.call->is_told();
  const bool at_once = legacy_ || wrapped() || known || told;
  const std::shared_ptr<NcclRanks> ranks = told ? nullptr : static_cast<NcclTransport&>(part.call->transport()).ranks();
  if (at_once && ranks != nullptr) make_unless_made(*ranks, where);
  const NcclPart* const leader = part.placed && part.leader != nullptr ? &part_of(*part.leader) : nullptr;
  const bool behind_collective = ends_with_collective();
  take_deferred(leader, at_once, where);
  std::shared_ptr<NcclPart> own;
  try {
    own = detail::make_recycled<NcclPart>(*this);  // its place is as late as it is in the row
    own->behind_collective = behind_collective;
    own->ranks = ranks;
    own->times = std::move(times);
    if (leader != nullptr) {
      own->behind = leader->behind;
    } else {
      part.place = own->place();
    }
    join_deferred(own, where);
    part.own = own;
    part.queue = this;
    if (at_once) hold_all_deferred(where);
    if (!at_once && own->times != nullptr) mark_first_deferred(where);  // from there on it waits for other ranks
    if (told) tell_arrival(part);
  } catch (...) {
    std::erase(deferred_.parts, own);
    part.queue = nullptr;
    part.own.reset();
    give_deferred();
    throw;
  }
  give_deferred();
  if (blocking_) device_.note_deferred();
}

/// Of a rank whose others are other processes: what comes behind it in the stream comes behind its kernel.
void CudaQueue::launch_collective(detail::CollectivePart& part, std::shared_ptr<PartTimes> times,
                                  SourceLocation where) {
  RankBoxes& boxes = static_cast<NcclMover*>(part.call->launch()->mover)->boxes();
  const bool behind_collective = ends_with_collective();
  const cudaStream_t native = stream(where);
  const auto own = detail::make_recycled<NcclPart>(*this, boxes.tag());
  own->times = std::move(times);
  if (part.placed && part.leader != nullptr) {
    own->behind = part_of(*part.leader).behind;
    own->in_doubt = failures().in_doubt_beyond(own->behind, boxes.tag());
  } else {
    part.place = own->place();
  }
  detail::DeviceGuard guard{nullptr, 0};
  if (own->in_doubt) {
    guard = failures().guard();
    guard.place = own->behind;
  }
  part.own = own;
  part.queue = this;
  try {
    boxes.launch(*part.call, {*this, native, own, guard, behind_collective});
  } catch (...) {
    part.queue = nullptr;
    part.own.reset();
    throw;
  }
}

/// They are ours then: nothing but deferred parts stands between what the new one comes behind and itself, or what is held.
void CudaQueue::take_deferred(const NcclPart* leader, bool at_once, SourceLocation where) {
  for (;;) {
    if (leader == nullptr && (at_once || !deferred_.any())) static_cast<void>(stream(where));
    if (deferred_.take_empty()) return;
    if (!deferred_.take()) continue;
    if (leader == nullptr ? !at_once : deferred_.parts.back()->behind == leader->behind) return;
    give_deferred();
    hold_deferred(where);
  }
}

/// By who has them. None of a unit waits for another one: where one is a wait by now, this one begins where that does.
void CudaQueue::join_deferred(const std::shared_ptr<NcclPart>& own, SourceLocation where) {
  // Where the last one of its unit is deferred, no other one is a wait.
  const NcclPart* const last = deferred_.parts.empty() ? nullptr : deferred_.parts.back().get();
  if (last != nullptr && last->behind == own->behind && last->state() == NcclPart::State::deferred && !last->over()) {
    deferred_.unit.push_back(own);
    deferred_.parts.push_back(own);
    return;
  }
  std::erase_if(deferred_.unit, [&](const std::weak_ptr<NcclPart>& one) {
    const auto part = one.lock();
    return !part || part->behind != own->behind;
  });
  deferred_.unit.push_back(own);
  for (const std::weak_ptr<NcclPart>& one : deferred_.unit) {
    const auto part = one.lock();
    if (!part || part->state() != NcclPart::State::held || part->over()) continue;
    return own->hold_beside(*part, where);
  }
  deferred_.parts.push_back(own);
}

void CudaQueue::hold_deferred(SourceLocation where) {
  std::vector<std::shared_ptr<NcclRanks>> failed;
  for (;;) {
    if (!deferred_.take()) return;
    const auto unmade = unmade_of_deferred(failed);
    if (unmade == nullptr) break;
    // What it needs is made while nothing waits for it: that waits for what runs.
    give_deferred();
    try {
      make_unless_made(*unmade, where);
    } catch (...) {
      failed.push_back(unmade);  // the collective itself will say so
    }
  }
  try {
    hold_all_deferred(where);
  } catch (...) {
    give_deferred();
    throw;
  }
  give_deferred();
}

/// By who has them: of the first communicator that NCCL has nothing of yet.
std::shared_ptr<NcclRanks> CudaQueue::unmade_of_deferred(const std::vector<std::shared_ptr<NcclRanks>>& failed) const {
  for (const auto& part : deferred_.parts) {
    const bool pending = !part->over() && part->state() == NcclPart::State::deferred;
    if (!pending || part->ranks == nullptr || part->ranks->made.load(std::memory_order_acquire)) continue;
    if (std::find(failed.begin(), failed.end(), part->ranks) == failed.end()) return part->ranks;
  }
  return nullptr;
}

/// What was looked at meanwhile was neither deferred nor held.
void CudaQueue::give_deferred() noexcept {
  deferred_.give();
  CallOrder::instance().look_if_any_wait();
}

void CudaQueue::try_mark_deferred() noexcept {
  if (!deferred_.try_take()) return;
  try {
    mark_first_deferred({});
  } catch (...) {
    // It is not marked: who comes next tries again.
  }
  give_deferred();
}

/// By who has them: those that nothing but the stream stands before. The first of them; null if none is left.
NcclPart* CudaQueue::mark_first_deferred(SourceLocation where) {
  NcclPart* first = nullptr;
  for (const auto& part : deferred_.parts) {
    if (part->over()) continue;
    if (first == nullptr) {
      first = part.get();
      if (!first->marked()) first->mark(mark_place(first->times != nullptr, where));
    }
    if (part->behind != first->behind) break;
    if (!part->marked()) part->mark(first->ready);
  }
  return first;
}

/// By who has them.
void CudaQueue::hold_all_deferred(SourceLocation where) {
  const RoomCall room;
  if (NcclPart* const first = mark_first_deferred(where)) {
    std::vector<NcclPart*> row;
    for (const auto& part : deferred_.parts) {
      if (!part->over()) row.push_back(part.get());
    }
    if (!row.empty()) NcclPart::hold(row, first->ready, where);
  }
  deferred_.parts.clear();
}

std::shared_ptr<StockEvent> CudaQueue::mark_place(bool timed, SourceLocation where) {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  auto event = detail::make_recycled<StockEvent>(device_, timed, where);
  const cudaError_t answer = in_context([&] { return driver().record_event(event->get(), queue); },
                                        [&] { return cudaEventRecord(event->get(), queue); });
  check(answer, collective, label_, where);
  return event;
}

void CudaQueue::wait_for_word(const SignalWord& word, std::uint32_t count, SourceLocation where) {
  const DeviceScope scope(device_.index());
  const cudaError_t answer =
      legacy_ || wrapped() ? wait_aside(word, count, where)
                           : cuda::wait_for(word, count, stream_.load(std::memory_order_acquire), device_.index());
  check(answer, collective, label_, where);
  waited_.store(true, std::memory_order_relaxed);
}

void CudaQueue::come_behind(cudaEvent_t event, const char* operation, SourceLocation where) {
  const cudaStream_t queue = stream_.load(std::memory_order_acquire);
  const cudaError_t answer = in_context([&] { return driver().wait_for_event(queue, event, CU_EVENT_WAIT_DEFAULT); },
                                        [&] { return cudaStreamWaitEvent(queue, event, cudaEventWaitDefault); });
  check(answer, operation, label_, where);
}

}  // namespace weir::cuda
