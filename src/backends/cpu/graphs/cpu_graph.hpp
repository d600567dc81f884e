// An instantiated graph on the CPU. A replay is one record in its stream; who runs it works through the graph's segments,
// and other threads join by tickets: records in queues of the graph's own (lanes), which workers take like any others.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/graphs/graph_plan.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/workers/futex.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

/// What the stream's queue keeps of a launch. The events' marks follow.
struct GraphRecord : WaitRecord {
  CpuGraph* graph;
  Plan* plan;
  std::int64_t begin;  ///< where observed; 0 if it was skipped
  bool started;

  CpuEvent::Mark* marks() { return reinterpret_cast<CpuEvent::Mark*>(this + 1); }
};

class CpuGraph final : public detail::GraphExecutable {
 public:
  CpuGraph(CpuDevice& device, const detail::GraphForm& form);

  void update(const detail::GraphForm& form, std::size_t node) override;
  void update_all(detail::GraphForm& form, std::vector<detail::NodeChange>& changes) override;
  /// The owner is gone; it goes with the last replay and the last ticket.
  void close() noexcept override { release(); }

  // For queues. A launch: everything between its two calls is serialised among launches of this graph.
  struct Launching {
    Plan* plan;
    CpuQueue* timeline;
    std::uint64_t sequence;    ///< of this replay in the timeline
    std::uint64_t wait_until;  ///< an earlier replay that this queue has to wait for; 0: none
  };
  SpinLock& launch_lock() WEIR_RETURNS(launch_lock_) { return launch_lock_; }
  std::size_t marks() const { return waits_; }
  /// With nothing left that may fail.
  Launching launch(CpuQueue& queue, CpuEvent::Mark* marks) WEIR_NEEDS(launch_lock_);
  /// Whether a launch on this queue has to wait for another queue's replay first.
  bool follows_elsewhere(const CpuQueue& queue) const WEIR_NEEDS(launch_lock_);
  std::uint64_t last_launch() const { return timeline_->tail(); }
  CpuQueue& timeline() { return *timeline_; }

  /// Runs what it can; others may be running the rest when it returns.
  void replay(GraphRecord& record, CpuQueue& queue, std::uint64_t sequence, Runner& runner, bool worker);
  /// Nothing runs, because the stream failed before.
  void skip();
  /// The replay is over; its plan and the graph may go.
  void finished(Plan& plan) noexcept;
  /// What a ticket does: takes part in the present replay, if any, beginning with `segment`.
  void help(CpuQueue& lane, std::uint32_t segment, Runner& runner, bool worker);

  static constexpr std::uint32_t none = ~std::uint32_t{0};
  static constexpr std::uint32_t begin = none - 1;

 private:
  ~CpuGraph() override;
  void retain() { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept;

  /// One thread's share of a replay.
  struct Part {
    std::uint32_t heap = 0;      ///< where it first puts segments, and looks for some
    std::uint32_t finished = 0;  ///< segments of scope 0 that are not counted yet
    std::uint32_t looks = 0;
  };

  // graph_replay.cpp
  void participate(std::uint32_t segment, Runner& runner, bool worker);
  std::uint32_t run(std::uint32_t segment, Runner& runner, Part& part);
  bool settle(Part& part);
  std::uint32_t linger(Part& part, Runner& runner, int level);
  void look_ahead(const Segment& segment) const;
  void run_steps(const Segment& segment, Runner& runner);
  void run_timed(const Step& step, Runner& runner);
  void run_step(const Step& step, Runner& runner);
  void record_event(const Step& step);
  std::uint32_t finish(std::uint32_t segment, Part& part);
  std::uint32_t release_successors(const Segment& segment, Part& part);
  std::uint32_t begin_scope(std::uint32_t scope, Part& part);
  std::uint32_t enter_body(const Segment& segment, bool again, Part& part);
  bool defer(std::uint32_t segment);
  void fail(const Step& step, std::exception_ptr cause);
  void complete();

  // cpu_graph.cpp
  struct Heap;
  std::uint32_t take(Part& part);
  std::uint32_t take_from(Heap& heap);
  void push(const std::uint32_t* segments, std::uint32_t count, Part& part);
  void offer();
  bool wide() const { return heaps_.size() > 1; }
  bool any_ready() const;
  int present_level() const { return level_.load(std::memory_order_relaxed); }
  CpuQueue& take_lane();
  void give_lane(CpuQueue& lane) noexcept;
  void add_record(std::uint32_t node, const detail::GraphForm& form, const QueueOptions& timeline);
  void end_timelines() noexcept;
  void finish_records();

  CpuDevice& device_;
  std::atomic<std::uint32_t> owners_{1};
  CpuQueue* timeline_;  ///< its counter numbers the replays
  std::vector<RecordNode> records_;
  std::vector<std::int32_t> record_of_node_;

  std::shared_ptr<const detail::Payload> update_current(const detail::GraphForm& form, std::size_t node)
      WEIR_NEEDS(launch_lock_);

  SpinLock launch_lock_;
  std::unique_ptr<Plan> current_ WEIR_GUARDED_BY(launch_lock_);
  const std::size_t waits_;                                                ///< of any version
  std::vector<std::unique_ptr<Plan>> past_ WEIR_GUARDED_BY(launch_lock_);  ///< of pending replays
  CpuQueue* last_queue_ WEIR_GUARDED_BY(launch_lock_) = nullptr;

  // The present replay; set before its first segment is ready.
  Plan* plan_ = nullptr;
  CpuEvent::Mark* marks_ = nullptr;
  CpuQueue* queue_ = nullptr;
  std::uint64_t sequence_ = 0;  ///< of the launch in its queue
  CommandId observed_ = 0;      ///< the launch, if its nodes' times are wanted
  std::uint64_t replays_ = 0;   ///< finished ones
  /// A helper of this replay that took nothing of it may look when the next one begins: either level serves its ticket.
  std::atomic<int> level_{0};
  std::int64_t began_ = 0;
  std::int64_t lasted_ = 0;  ///< the last replay, in nanoseconds; 0: unknown
  std::atomic<bool> loud_{false};
  std::atomic<int> between_looks_{1};  ///< at the clock, in segments: a look takes as long as a short one
  std::atomic<bool> failed_{false};

  struct Ready {
    std::uint64_t urgency;
    std::uint32_t segment;
    std::uint32_t step;  ///< its first
    bool operator<(const Ready& other) const { return urgency < other.urgency; }
  };
  /// Segments that are ready: the most urgent first. A wide pool has several for replays that last, so that its threads seldom
  /// meet; each takes the more urgent of its own heap's first and another's.
  struct alignas(64) Heap {
    SpinLock lock;
    std::atomic<std::uint64_t> first{0};  ///< the urgency of the first plus one, 0: empty; written under lock
    std::vector<Ready> ready WEIR_GUARDED_BY(lock);
  };
  std::vector<Heap> heaps_;
  std::size_t room_ = 0;  ///< in each of them; of who begins a replay

  SpinLock failure_lock_;
  std::shared_ptr<const Error> failure_ WEIR_GUARDED_BY(failure_lock_);

  alignas(64) std::atomic<bool> ticket_{false};  ///< one is on its way to a worker
  std::atomic<bool> ticket_loud_{false};
  std::atomic<int> tickets_{0};  ///< on their way; where there are many workers, several
  std::atomic<int> helpers_{0};
  alignas(64) std::atomic<bool> over_{true};  ///< no replay is under way: nothing to linger for
  SpinLock lanes_lock_;
  std::vector<CpuQueue*> lanes_ WEIR_GUARDED_BY(lanes_lock_);
  std::vector<CpuQueue*> free_lanes_ WEIR_GUARDED_BY(lanes_lock_);
};

}  // namespace weir::cpu
