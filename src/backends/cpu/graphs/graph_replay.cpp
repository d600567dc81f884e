// A replay: segments in parallel, each when what it depends on is finished.
#include <chrono>
#include <exception>
#include <string>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/memory/memory_ops.hpp"
#include "failure_reports.hpp"
#include "function_clock.hpp"

namespace weir::cpu {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t alone_nanoseconds = 15'000;  ///< a replay that lasts less is over before a helper would be awake
constexpr int fair_share = 256;                     ///< segments before other work of the same priority has its turn
constexpr int host = -1;                            ///< for a level: a host thread's, that does nothing else
constexpr std::int64_t looks_apart = 2'000;         ///< nanoseconds, in a replay that is as short as the last one was
constexpr std::int64_t least_between_looks = 4;     ///< segments of such a replay
constexpr std::int64_t most_between_looks = 16;     ///< of one that is not short any more so many go by unnoticed
constexpr int lingering_looks = 40;                 ///< of about half a microsecond, for a segment to become ready

/// A look at the clock takes as long as a short one. `lasted`: the last replay, 0: unknown.
int segments_between_looks(std::int64_t lasted, std::size_t segments) {
  if (lasted == 0 || 2 * lasted >= alone_nanoseconds) return 1;
  const std::int64_t some = looks_apart * static_cast<std::int64_t>(segments) / lasted;
  return static_cast<int>(std::clamp(some, least_between_looks, most_between_looks));
}

std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// What a refused Weir call inside a node is told: on every thread that takes part in it.
class RunningNode {
 public:
  explicit RunningNode(const detail::Payload& payload) { detail::running_node = &payload.running(); }
  ~RunningNode() { detail::running_node = nullptr; }
};

void run_elements(void* context, std::size_t begin, std::size_t end, Runner&) {
  const auto& payload = *static_cast<const detail::Payload*>(context);
  const RunningNode running(payload);
  const auto& launch = std::get<Launch>(payload.op());
  launch.kernel->run(launch.closure, KernelRange{&launch.extent, begin, end});
}

void run_blocks(void* context, std::size_t begin, std::size_t end, Runner& runner) {
  const auto& payload = *static_cast<const detail::Payload*>(context);
  const RunningNode running(payload);
  const auto& launch = std::get<Launch>(payload.op());
  const detail::BlockSizes sizes = detail::block_sizes(launch.extent, launch.thread_shape);
  launch.kernel->run_blocks(launch.closure, BlockRange{sizes, begin, end, launch.shared_bytes, &runner.block_memory});
}

}  // namespace

void CpuGraph::replay(GraphRecord& record, CpuQueue& queue, std::uint64_t sequence, Runner& runner, bool worker) {
  plan_ = record.plan;
  marks_ = record.marks();
  queue_ = &queue;
  sequence_ = sequence;
  observed_ = record.id;
  if (plan_->segments.size() <= 1) {
    if (plan_->segments.empty()) {
      complete();
      return;
    }
    level_.store(queue.level(), std::memory_order_relaxed);
    participate(0, runner, worker);
    return;
  }
  level_.store(std::min(queue.level(), std::max(0, plan_->most_urgent + WorkerPool::levels - 1)),
               std::memory_order_relaxed);
  began_ = now_nanoseconds();
  loud_.store(lasted_ > alone_nanoseconds, std::memory_order_relaxed);
  between_looks_.store(segments_between_looks(lasted_, plan_->segments.size()), std::memory_order_relaxed);
  over_.store(false, std::memory_order_relaxed);
  if (room_ < plan_->segments.size()) {
    for (Heap& heap : heaps_) {
      SpinGuard guard(heap.lock);
      heap.ready.reserve(plan_->segments.size());
    }
    room_ = plan_->segments.size();
  }
  participate(begin, runner, worker);
}

/// Works through what is ready. `segment`: to begin with; none: whatever there is; begin: the replay's first.
void CpuGraph::participate(std::uint32_t segment, Runner& runner, bool worker) {
  WorkerPool& pool = device_.pool();
  Part part;
  int share = fair_share;
  const int between_looks = between_looks_.load(std::memory_order_relaxed);
  int until_look = between_looks;
  if (wide()) part.heap = static_cast<std::uint32_t>(helpers_.load(std::memory_order_relaxed)) % heaps_.size();
  if (segment == begin) segment = begin_scope(0, part);
  if (segment == none) {
    segment = take(part);
    if (wide() && any_ready()) offer();  // the ticket stood for all heaps' segments
  }
  while (segment != none) {
    const int level = present_level();  // the next replay may have another, but it begins behind this segment
    runner.level = level;
    segment = run(segment, runner, part);
    if (segment == none) segment = take(part);
    if (segment == none) {
      if (settle(part) || !wide() || !loud_.load(std::memory_order_relaxed)) return;
      segment = linger(part, runner, worker ? level : host);
      if (segment == none) return;
    }
    if (!loud_.load(std::memory_order_relaxed) && --until_look == 0) {
      until_look = between_looks;
      if (now_nanoseconds() - began_ > alone_nanoseconds) {
        loud_.store(true, std::memory_order_relaxed);
        if (any_ready()) offer();
      }
    }
    runner.note_progress();
    if (!worker) {
      pool.note_host();  // it uses a core: no worker more than there are others for
      continue;
    }
    const bool turn = --share == 0;
    if (turn) share = fair_share;
    if (pool.more_urgent_than(present_level()) || runner.must_leave() ||
        (turn && pool.ready() > tickets_.load(std::memory_order_relaxed))) {
      settle(part);  // never the end: the segment is still to be run
      push(&segment, 1, part);
      return;
    }
  }
}

/// Counts what this thread has finished, once it finds nothing more: a counter for all, that every segment of every thread
/// counted down, would be a place where they all meet. True if that was the last of the replay. Before that nobody can have
/// ended it; afterwards the next one may be running.
bool CpuGraph::settle(Part& part) {
  if (part.finished == 0) return false;
  // Releases what the segments did, and acquires what the others' did for whoever is the last.
  const std::uint32_t before = plan_->remaining[0].fetch_sub(part.finished, std::memory_order_acq_rel);
  const bool last = before == part.finished;
  part.finished = 0;
  if (!last) return false;
  plan_->remaining[0].store(plan_->scopes[0].segments, std::memory_order_relaxed);
  complete();
  return true;
}

/// Waits a moment for a segment of a replay that lasts: to leave and to be called again takes longer than most nodes do.
/// Leaves for work that is more urgent than `level`, and now and then for any; a host thread has no other work.
std::uint32_t CpuGraph::linger(Part& part, Runner& runner, int level) {
  WorkerPool& pool = device_.pool();
  for (int looks = 0; looks < lingering_looks; ++looks) {
    pause(16);
    if (any_ready()) {
      const std::uint32_t segment = take(part);
      if (segment != none) return segment;
    }
    if (over_.load(std::memory_order_relaxed) || !loud_.load(std::memory_order_relaxed) || runner.must_leave())
      return none;
    if (level != host && (looks % 4 == 3 ? pool.any_ready() : pool.more_urgent_than(level))) return none;
  }
  return none;
}

/// Runs a segment. What to go on with, or none.
std::uint32_t CpuGraph::run(std::uint32_t index, Runner& runner, Part& part) {
  const Segment& segment = plan_->segments[index];
  if (segment.control >= 0) {
    const std::uint32_t first = enter_body(segment, false, part);
    return first != none ? first : finish(index, part);
  }
  if (segment.steps != 0 && plan_->steps[segment.first_step].kind == Step::Kind::wait && defer(index)) return none;
  look_ahead(segment);
  run_steps(segment, runner);
  return finish(index, part);
}

/// Asks for the memory that will be needed next, while the segment runs: its successors' counters, and work that comes
/// soon. In a graph too large for the cache each of them would be waited for.
void CpuGraph::look_ahead(const Segment& segment) const {
  constexpr std::size_t near = 4;  // segments lie in about the order in which they run
  const std::size_t soon = segment.first_step + segment.steps + near;
  if (soon < plan_->steps.size()) __builtin_prefetch(plan_->steps[soon].closure);
  const std::uint32_t* successor = plan_->successors.data() + segment.first_successor;
  for (std::uint32_t i = 0; i < std::min<std::uint32_t>(segment.successors, near); ++i, ++successor) {
    __builtin_prefetch(&plan_->segments[*successor]);
    prefetch_to_write(&plan_->pending[*successor]);
  }
}

void CpuGraph::run_steps(const Segment& segment, Runner& runner) {
  if (failed_.load(std::memory_order_relaxed)) return;
  const Step* step = plan_->steps.data() + segment.first_step;
  const Step* const end = step + segment.steps;
  try {
    if (observed_ != 0) [[unlikely]] {
      for (; step != end; ++step) run_timed(*step, runner);
    }
    for (; step != end; ++step) {
      if (step->kind == Step::Kind::single) [[likely]] {
        detail::running_node = &step->payload->running();
        step->run(step->closure, KernelRange{nullptr, 0, 1});
      } else {
        run_step(*step, runner);
      }
    }
  } catch (...) {
    fail(*step, std::current_exception());
  }
  detail::running_node = nullptr;
}

void CpuGraph::run_timed(const Step& step, Runner& runner) {
  const Clock::time_point begin = Clock::now();
  if (step.kind == Step::Kind::single) {
    const RunningNode running(*step.payload);
    step.run(step.closure, KernelRange{nullptr, 0, 1});
  } else {
    run_step(step, runner);
    const bool works =
        step.kind != Step::Kind::nothing && step.kind != Step::Kind::wait && step.kind != Step::Kind::record;
    if (!works) return;
  }
  detail::report_node_ran(observed_, queue_->stream(), step.node, {begin, Clock::now()});
}

namespace {
void run_loop(WorkerPool& pool, ParallelLoop::Body body, const Step& step, Runner& runner) {
  const auto& launch = std::get<Launch>(step.payload->op());
  pool.run_parallel(body, const_cast<detail::Payload*>(step.payload), launch.extent.count(), runner, launch.kernel);
}
}  // namespace

void CpuGraph::run_step(const Step& step, Runner& runner) {
  WorkerPool& pool = device_.pool();
  switch (step.kind) {
    case Step::Kind::single:
    case Step::Kind::nothing:
    case Step::Kind::wait: return;
    case Step::Kind::launch: return run_loop(pool, &run_elements, step, runner);
    case Step::Kind::blocks: return run_loop(pool, &run_blocks, step, runner);
    case Step::Kind::copy: {
      const auto& copy = std::get<Copy>(step.payload->op());
      copy_elements(pool, runner, copy.to, copy.to_layout, copy.from, copy.from_layout);
      return;
    }
    case Step::Kind::fill: {
      const auto& fill = std::get<Fill>(step.payload->op());
      fill_elements(pool, runner, fill.to, fill.layout, fill.value);
      return;
    }
    case Step::Kind::call: {
      const RunningNode running(*step.payload);
      const Op& op = step.payload->op();
      const auto* call = std::get_if<HostCall>(&op);
      detail::HostFunction& function = *(call != nullptr ? call->function : std::get<External>(op).function);
      const detail::FunctionBody body(function);
      function.call(NativeStream{});
      return;
    }
    case Step::Kind::record: record_event(step); return;
  }
}

void CpuGraph::record_event(const Step& step) {
  const RecordNode& record = records_[static_cast<std::size_t>(record_of_node_[step.node])];
  if (record.stamp != nullptr) record.stamp->nanoseconds.store(now_nanoseconds(), std::memory_order_release);
  if (record.timeline->counted() == replays_) record.timeline->reach_next();
}

/// A segment that begins with a wait for an event that is not reached goes on by a ticket behind that event.
bool CpuGraph::defer(std::uint32_t index) {
  const std::uint32_t node = plan_->steps[plan_->segments[index].first_step].node;
  const auto place = std::find(plan_->waits.begin(), plan_->waits.end(), node) - plan_->waits.begin();
  CpuEvent::Mark& mark = marks_[place];
  if (mark.queue == nullptr || mark.queue->reached(mark.sequence) || failed_.load(std::memory_order_relaxed))
    return false;
  retain();
  CpuQueue& lane = take_lane();
  lane.append_wait(*mark.queue, mark.sequence, Origin{});
  lane.append_ticket(*this, index, present_level(), true);
  return true;
}

/// Counts down what depends on the segment. The most urgent that became ready is this thread's to go on with.
std::uint32_t CpuGraph::release_successors(const Segment& segment, Part& part) {
  std::uint32_t next = none;
  const std::uint32_t* successor = plan_->successors.data() + segment.first_successor;
  for (std::uint32_t i = 0; i < segment.successors; ++i, ++successor) {
    const Segment& after = plan_->segments[*successor];
    if (after.in_degree != 1) {
      if (plan_->pending[*successor].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      plan_->pending[*successor].store(after.in_degree, std::memory_order_relaxed);
    }
    if (next == none) {
      next = *successor;
    } else if (plan_->segments[next].urgency < after.urgency) {
      push(&next, 1, part);
      next = *successor;
    } else {
      push(successor, 1, part);
    }
  }
  return next;
}

/// Makes a scope's roots ready. One of them is the caller's.
std::uint32_t CpuGraph::begin_scope(std::uint32_t index, Part& part) {
  const Scope& scope = plan_->scopes[index];
  const std::uint32_t* roots = plan_->roots.data() + scope.first_root;
  if (scope.roots > 1) push(roots, scope.roots - 1, part);
  return roots[scope.roots - 1];
}

/// The body that a condition asks for now; none if there is none (any more).
std::uint32_t CpuGraph::enter_body(const Segment& segment, bool again, Part& part) {
  const detail::Condition& condition = plan_->conditions[static_cast<std::size_t>(segment.control)];
  std::uint32_t body = 0;
  if (failed_.load(std::memory_order_relaxed)) return none;
  if (condition.value == nullptr) {
    if (again) return none;  // a child graph runs once
  } else {
    const std::int32_t value = *condition.value;
    if (again && condition.kind != detail::Condition::Kind::while_) return none;
    switch (condition.kind) {
      case detail::Condition::Kind::if_:
      case detail::Condition::Kind::while_:
        if (value == 0) return none;
        break;
      case detail::Condition::Kind::if_else: body = value != 0 ? 0 : 1; break;
      case detail::Condition::Kind::switch_:
        if (value < 0 || static_cast<std::uint32_t>(value) >= condition.bodies) return none;
        body = static_cast<std::uint32_t>(value);
        break;
    }
  }
  const std::uint32_t scope = segment.bodies + body;
  return plan_->scopes[scope].segments == 0 ? none : begin_scope(scope, part);
}

std::uint32_t CpuGraph::finish(std::uint32_t index, Part& part) {
  for (;;) {
    const Segment& segment = plan_->segments[index];
    const std::uint32_t next = release_successors(segment, part);
    if (segment.scope == 0) {
      ++part.finished;
      return next;
    }
    const Scope& scope = plan_->scopes[segment.scope];
    // The last segment of a scope ends it; whoever was not the last touches it no more.
    if (scope.segments != 1 && plan_->remaining[segment.scope].fetch_sub(1, std::memory_order_acq_rel) != 1)
      return next;
    plan_->remaining[segment.scope].store(scope.segments, std::memory_order_relaxed);
    index = static_cast<std::uint32_t>(scope.parent);
    const std::uint32_t first = enter_body(plan_->segments[index], true, part);
    if (first != none) return first;
  }
}

void CpuGraph::fail(const Step& step, std::exception_ptr cause) {
  const Launch* kernel = std::get_if<Launch>(&step.payload->op());
  const bool external = std::holds_alternative<External>(step.payload->op());
  const char* operation = kernel == nullptr           ? external ? "weir::external" : "weir::host_call"
                          : kernel->kernel->rank == 0 ? "weir::launch_blocks"
                                                      : "weir::launch";
  const detail::FailedCommand command{kernel != nullptr ? Errc::kernel_failed : Errc::host_function_failed,
                                      operation,
                                      kernel != nullptr ? "kernel"
                                      : external        ? "foreign work"
                                                        : "host function",
                                      step.payload->name(),
                                      queue_->label(),
                                      step.payload->where()};
  std::shared_ptr<const Error> error = detail::failure_of(command, std::move(cause));
  SpinGuard guard(failure_lock_);
  if (!failure_) failure_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

void CpuGraph::finish_records() {
  for (const RecordNode& record : records_) {
    if (record.timeline->counted() != replays_) continue;
    if (record.stamp != nullptr) record.stamp->nanoseconds.store(now_nanoseconds(), std::memory_order_release);
    record.timeline->reach_next();
  }
}

void CpuGraph::complete() {
  if (plan_->segments.size() > 1) lasted_ = now_nanoseconds() - began_;
  if (failed_.load(std::memory_order_acquire)) {
    SpinGuard guard(failure_lock_);
    detail::note_unseen(failure_);
    queue_->failures().fail(sequence_, std::move(failure_));
    failed_.store(false, std::memory_order_relaxed);
  }
  finish_records();
  ++replays_;
  over_.store(true, std::memory_order_relaxed);
  timeline_->reach_next();  // from here on the next replay may be running
}

void CpuGraph::skip() {
  finish_records();
  ++replays_;
  timeline_->reach_next();
}

}  // namespace weir::cpu
