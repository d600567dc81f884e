// A graph's life on the CPU: made, launched, changed, given up; and how other threads learn of its work.
#include "backends/cpu/graphs/cpu_graph.hpp"

#include <algorithm>
#include <utility>

#include "backends/cpu/cpu_device.hpp"

namespace weir::cpu {

CpuGraph::CpuGraph(CpuDevice& device, const detail::GraphForm& form)
    : device_(device),
      record_of_node_(form.nodes.size(), -1),
      current_(std::make_unique<Plan>(form)),
      waits_(current_->waits.size()) {
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.label = "a graph";
  ready_.reserve(current_->segments.size());
  records_.reserve(current_->records.size());
  timeline_ = &device.open_queue(options);
  timeline_->begin_counting();
  try {
    for (const std::uint32_t node : current_->records) add_record(node, form, options);
  } catch (...) {
    end_timelines();
    throw;
  }
}

void CpuGraph::add_record(std::uint32_t node, const detail::GraphForm& form, const QueueOptions& timeline) {
  const auto& record = std::get<weir::Record>(form.nodes[node].payload->op());
  RecordNode mine;
  mine.event = static_cast<CpuEvent*>(record.event);
  mine.event_id = record.event_id;
  std::unique_ptr<Stamp> stamp;
  if (mine.event->timed) {
    stamp = std::make_unique<Stamp>();
    stamp->owners.store(1, std::memory_order_relaxed);
  }
  mine.timeline = &device_.open_queue(timeline);
  mine.timeline->begin_counting();
  mine.stamp = stamp.release();
  record_of_node_[node] = static_cast<std::int32_t>(records_.size());
  records_.push_back(mine);
}

void CpuGraph::end_timelines() noexcept {
  for (const RecordNode& record : records_) {
    release_stamp(record.stamp);
    record.timeline->end_counting();
  }
  timeline_->end_counting();
}

CpuGraph::~CpuGraph() {
  end_timelines();
  for (CpuQueue* lane : lanes_) lane->retire();
}

void CpuGraph::release() noexcept {
  if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
}

void CpuGraph::update(const detail::GraphForm& form, std::size_t node) {
  std::unique_ptr<Plan> copy;
  std::shared_ptr<const detail::Payload> old;
  SpinGuard guard(launch_lock_);
  if (!current_->has_step(node)) return;
  if (current_->launches == 0) {
    old = current_->payloads[node];  // destroyed behind the lock, as it is declared before
    current_->set_step(node, form.nodes[node]);
    return;
  }
  copy = std::make_unique<Plan>(form);
  past_.push_back(std::move(current_));
  current_ = std::move(copy);
}

bool CpuGraph::follows_elsewhere(const CpuQueue& queue) const {
  return last_queue_ != nullptr && last_queue_ != &queue && !timeline_->reached(timeline_->tail());
}

CpuGraph::Launching CpuGraph::launch(CpuQueue& queue, CpuEvent::Mark* marks) {
  retain();
  ++current_->launches;
  last_queue_ = &queue;
  for (const std::uint32_t node : current_->waits) {
    const auto& wait = std::get<Wait>(current_->payloads[node]->op());
    auto* event = static_cast<CpuEvent*>(wait.event);
    const bool alive = (event->id.load(std::memory_order_acquire) & ~detail::captured_bit) == wait.event_id;
    *marks++ = alive ? event->mark() : CpuEvent::Mark{};
  }
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const RecordNode& record = records_[i];
    const std::uint64_t sequence = record.timeline->count_one();
    const Step& step = current_->steps[static_cast<std::size_t>(current_->step_of_node[current_->records[i]])];
    if (step.kind != Step::Kind::record) continue;  // disabled
    const bool alive = (record.event->id.load(std::memory_order_acquire) & ~detail::captured_bit) == record.event_id;
    if (alive) record.event->record_elsewhere(*record.timeline, sequence, record.stamp);
  }
  return {current_.get(), timeline_, timeline_->count_one(), 0};
}

void CpuGraph::finished(Plan& plan) noexcept {
  std::unique_ptr<Plan> old;
  {
    SpinGuard guard(launch_lock_);
    if (--plan.launches == 0 && &plan != current_.get()) {
      const auto found = std::find_if(past_.begin(), past_.end(), [&](const auto& one) { return one.get() == &plan; });
      old = std::move(*found);
      past_.erase(found);
    }
  }
  old.reset();
  release();
}

/// The most urgent segment that nobody runs. Who comes by a ticket ends it: what becomes ready from then on needs another.
std::uint32_t CpuGraph::take(bool by_ticket) {
  if (!by_ticket && ready_count_.load(std::memory_order_acquire) == 0) return none;
  std::uint32_t segment = none;
  bool more = false;
  bool offered = false;
  {
    SpinGuard guard(lock_);
    // Inside the lock, as in push(): either this thread finds what was pushed, or the pusher finds no ticket.
    if (by_ticket) ticket_.store(false, std::memory_order_relaxed);
    if (ready_.empty()) return none;
    offered = ticket_.load(std::memory_order_relaxed);
    std::pop_heap(ready_.begin(), ready_.end());
    segment = ready_.back().segment;
    ready_.pop_back();
    more = !ready_.empty();
    for (std::size_t i = 0; i < std::min<std::size_t>(ready_.size(), 3); ++i) {  // one of these is next
      __builtin_prefetch(&plan_->segments[ready_[i].segment]);
      __builtin_prefetch(&plan_->steps[ready_[i].step]);
    }
    ready_count_.store(static_cast<std::uint32_t>(ready_.size()), std::memory_order_release);
  }
  if (more) offer(offered);
  return segment;
}

void CpuGraph::push(const std::uint32_t* segments, std::uint32_t count) {
  bool offered = false;
  {
    SpinGuard guard(lock_);
    offered = ticket_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < count; ++i) {
      const Segment& segment = plan_->segments[segments[i]];
      ready_.push_back({segment.urgency, segments[i], segment.first_step});
      std::push_heap(ready_.begin(), ready_.end());
    }
    ready_count_.store(static_cast<std::uint32_t>(ready_.size()), std::memory_order_release);
  }
  offer(offered);
}

/// While segments are ready there is a ticket, so that a node that lasts, or waits for another one, holds up nothing. A
/// short replay writes it without waking anybody: most often it is over before anybody could have come. `offered`: there
/// was one when the segments became ready.
void CpuGraph::offer(bool offered) {
  const bool loud =
      loud_.load(std::memory_order_relaxed) && helpers_.load(std::memory_order_relaxed) + 1 < device_.pool().width();
  if (offered) {
    if (loud && !ticket_loud_.load(std::memory_order_relaxed) && !ticket_loud_.exchange(true)) device_.pool().nudge();
    return;
  }
  if (ticket_.exchange(true, std::memory_order_acq_rel)) return;
  ticket_loud_.store(loud, std::memory_order_relaxed);
  retain();
  CpuQueue* lane = nullptr;
  try {
    lane = &take_lane();
    lane->append_ticket(*this, none, level_, loud);
  } catch (const std::exception&) {
    // No memory for a ticket: those who are here do the work.
    if (lane != nullptr) give_lane(*lane);
    ticket_.store(false, std::memory_order_release);
    release();
    return;
  }
  timeline_->help_by(*lane);
}

void CpuGraph::give_lane(CpuQueue& lane) noexcept {
  SpinGuard guard(lanes_lock_);
  free_lanes_.push_back(&lane);
}

CpuQueue& CpuGraph::take_lane() {
  SpinGuard guard(lanes_lock_);
  if (free_lanes_.empty()) {
    QueueOptions options;
    options.kind = QueueOptions::Kind::internal;
    options.blocking = false;
    options.label = "a branch of a graph";
    lanes_.reserve(lanes_.size() + 1);
    free_lanes_.reserve(lanes_.size() + 1);
    CpuQueue& lane = device_.open_queue(options);
    lanes_.push_back(&lane);
    return lane;
  }
  CpuQueue* lane = free_lanes_.back();
  free_lanes_.pop_back();
  return *lane;
}

void CpuGraph::help(CpuQueue& lane, std::uint32_t segment, Runner& runner, bool worker) {
  helpers_.fetch_add(1, std::memory_order_relaxed);
  if (segment == none) segment = take(true);
  if (segment != none) participate(segment, runner, worker);
  helpers_.fetch_sub(1, std::memory_order_relaxed);
  give_lane(lane);
  release();
}

}  // namespace weir::cpu
