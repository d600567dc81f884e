// A graph's life on the CPU: made, launched, changed, given up; and how other threads learn of its work.
#include "backends/cpu/graphs/cpu_graph.hpp"

#include <algorithm>
#include <utility>

#include "backends/cpu/cpu_device.hpp"

namespace weir::cpu {

namespace {
/// One for a few threads each; a pool of two or three workers has one.
std::size_t heaps_for(int width) {
  return width < 4 ? 1 : std::min<std::size_t>(static_cast<std::size_t>(width) / 4 + 1, 8);
}
}  // namespace

CpuGraph::CpuGraph(CpuDevice& device, const detail::GraphForm& form)
    : device_(device),
      record_of_node_(form.nodes.size(), -1),
      current_(std::make_unique<Plan>(form)),
      waits_(current_->waits.size()),
      heaps_(current_->segments.size() > 1 ? heaps_for(device.pool().width()) : 1) {
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.label = "a graph";
  room_ = current_->segments.size();
  for (Heap& heap : heaps_) heap.ready.reserve(room_);
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
  std::shared_ptr<const detail::Payload> old;  // destroyed behind the lock, as it is declared before
  SpinGuard guard(launch_lock_);
  old = update_current(form, node);
}

void CpuGraph::update_all(detail::GraphForm& form, std::vector<detail::NodeChange>& changes) {
  SpinGuard guard(launch_lock_);
  // Called under the lock, at once. What the nodes did is in the changes by then: nothing is destroyed under it.
  detail::exchange_all(form, changes, [&](std::size_t node) WEIR_NOT_ANALYSED { update_current(form, node); });
}

/// Returns what the node did before.
std::shared_ptr<const detail::Payload> CpuGraph::update_current(const detail::GraphForm& form, std::size_t node) {
  if (!current_->has_step(node)) return nullptr;
  if (current_->launches == 0) {
    std::shared_ptr<const detail::Payload> old = current_->payloads[node];
    current_->set_step(node, form.nodes[node]);
    return old;
  }
  auto copy = std::make_unique<Plan>(form);
  past_.push_back(std::move(current_));
  current_ = std::move(copy);
  return nullptr;
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

std::uint32_t CpuGraph::take_from(Heap& heap) {
  std::uint32_t segment = none;
  bool more = false;
  {
    SpinGuard guard(heap.lock);
    std::vector<Ready>& ready = heap.ready;
    if (ready.empty()) return none;
    std::pop_heap(ready.begin(), ready.end());
    segment = ready.back().segment;
    ready.pop_back();
    more = !ready.empty();
    for (std::size_t i = 0; i < std::min<std::size_t>(ready.size(), 3); ++i) {  // one of these is next
      __builtin_prefetch(&plan_->segments[ready[i].segment]);
      __builtin_prefetch(&plan_->steps[ready[i].step]);
    }
    heap.first.store(more ? ready.front().urgency + 1 : 0, std::memory_order_release);
  }
  if (more) offer();
  return segment;
}

/// A segment that nobody runs: the most urgent, or, of several heaps, the more urgent of two heaps' first.
std::uint32_t CpuGraph::take(Part& part) {
  if (!wide()) return heaps_[0].first.load(std::memory_order_seq_cst) == 0 ? none : take_from(heaps_[0]);
  const std::size_t count = heaps_.size();
  const std::size_t other = (part.heap + 1 + ++part.looks % (count - 1)) % count;
  const std::uint64_t mine = heaps_[part.heap].first.load(std::memory_order_acquire);
  const std::uint64_t theirs = heaps_[other].first.load(std::memory_order_acquire);
  if (mine != 0 || theirs != 0) {
    const std::uint32_t segment = take_from(heaps_[theirs > mine ? other : part.heap]);
    if (segment != none) return segment;
  }
  for (std::size_t i = 0; i < count; ++i) {
    Heap& heap = heaps_[(part.heap + i) % count];
    if (heap.first.load(std::memory_order_seq_cst) == 0) continue;
    const std::uint32_t segment = take_from(heap);
    if (segment != none) return segment;
  }
  return none;
}

bool CpuGraph::any_ready() const {
  return std::any_of(heaps_.begin(), heaps_.end(),
                     [](const Heap& heap) { return heap.first.load(std::memory_order_seq_cst) != 0; });
}

/// Several segments are dealt out over the heaps, but in a replay that is over before others come.
void CpuGraph::push(const std::uint32_t* segments, std::uint32_t count, Part& part) {
  const auto heaps = loud_.load(std::memory_order_relaxed) ? static_cast<std::uint32_t>(heaps_.size()) : 1;
  for (std::uint32_t first = 0; first < std::min(heaps, count); ++first) {
    Heap& heap = heaps_[(part.heap + first) % heaps];
    SpinGuard guard(heap.lock);
    for (std::uint32_t i = first; i < count; i += heaps) {
      const Segment& segment = plan_->segments[segments[i]];
      heap.ready.push_back({segment.urgency, segments[i], segment.first_step});
      std::push_heap(heap.ready.begin(), heap.ready.end());
    }
    // A full barrier, whose partner is in help(): offer() sees that the last ticket was taken, or its taker sees these,
    // as it takes one (take()) or looks whether there are more (any_ready()).
    heap.first.store(heap.ready.front().urgency + 1, std::memory_order_seq_cst);
  }
  offer();
}

/// While segments are ready there is a ticket, so that a node that lasts, or waits for another one, holds up nothing. A
/// short replay writes it without waking anybody: most often it is over before anybody could have come. In a wide pool
/// several are on their way while more threads may join, so that these become more and more quickly.
void CpuGraph::offer() {
  const int width = device_.pool().width();
  const int helpers = helpers_.load(std::memory_order_relaxed);
  const bool loud = loud_.load(std::memory_order_relaxed) && helpers + 1 < width;
  if (ticket_.load(std::memory_order_seq_cst)) {
    if (loud && !ticket_loud_.load(std::memory_order_relaxed) && !ticket_loud_.exchange(true)) device_.pool().nudge();
    const int tickets = tickets_.load(std::memory_order_relaxed);
    if (!wide() || !loud || tickets > width / 8 || helpers + 1 + tickets >= width) return;
  } else if (ticket_.exchange(true, std::memory_order_acq_rel)) {
    return;
  } else {
    ticket_loud_.store(loud, std::memory_order_relaxed);
  }
  tickets_.fetch_add(1, std::memory_order_relaxed);
  retain();
  CpuQueue* lane = nullptr;
  try {
    lane = &take_lane();
    lane->append_ticket(*this, none, present_level(), loud && !wide());
  } catch (const std::exception&) {
    // No memory for a ticket: those who are here do the work.
    if (lane != nullptr) give_lane(*lane);
    tickets_.fetch_sub(1, std::memory_order_relaxed);
    ticket_.store(false, std::memory_order_release);
    release();
    return;
  }
  timeline_->help_by(*lane);
  if (loud && wide()) device_.pool().nudge();  // what it is for lasts, whatever other work was like of late
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
  if (segment == none) {
    tickets_.fetch_sub(1, std::memory_order_relaxed);
    // A full barrier, whose partner is in push(): what is pushed without a further ticket is found below.
    ticket_.exchange(false, std::memory_order_seq_cst);
  }
  helpers_.fetch_add(1, std::memory_order_relaxed);
  participate(segment, runner, worker);
  helpers_.fetch_sub(1, std::memory_order_relaxed);
  give_lane(lane);
  release();
}

}  // namespace weir::cpu
