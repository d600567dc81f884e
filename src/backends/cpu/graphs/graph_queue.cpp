// What queues do for graphs: replays in a stream's order, counters of replays, tickets.
#include <chrono>

#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"

namespace weir::cpu {

namespace {
using Clock = std::chrono::steady_clock;
}

void CpuQueue::begin_counting() {
  QueueStrand::begin_counting();
  consumer_.counting_from = done_;
}

void CpuQueue::end_counting() noexcept { settle(QueueStrand::end_counting()); }

void CpuQueue::adopt_failure(std::uint64_t sequence, const Error& error) {
  SpinGuard guard(failure_lock_);
  if (failure_) return;
  failure_ = std::make_shared<const Failure>(Failure{sequence, error});
  ever_failed_.store(true, std::memory_order_release);
  failed_.store(true, std::memory_order_release);
}

void CpuQueue::start_graph(GraphRecord& record, Runner& runner, bool worker) {
  if (record.started) return;
  record.started = true;
  if (record.id != 0) record.begin = Clock::now().time_since_epoch().count();
  if (failed_.load(std::memory_order_relaxed)) {
    record.graph->skip();
  } else {
    record.graph->replay(record, *this, done_ + 1, runner, worker);
  }
}

void CpuQueue::finish_graph(GraphRecord& record) {
  if (record.id != 0) {
    detail::report_ran(record.id, stream_, {Clock::time_point(Clock::duration(record.begin)), Clock::now()});
  }
  record.graph->finished(*record.plan);
}

void CpuQueue::run_ticket(const TicketRecord& ticket, Runner& runner) {
  // A host thread that helps runs it to its end; only workers have other work to turn to.
  ticket.graph->help(*this, ticket.segment, runner, runner.worker);
}

}  // namespace weir::cpu
