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

void CpuQueue::start_graph(GraphRecord& record, Runner& runner, bool worker) {
  if (record.started) return;
  record.started = true;
  const bool skips = failures_.failed_relaxed();
  if (record.id != 0) record.begin = skips ? 0 : Clock::now().time_since_epoch().count();
  if (skips) {
    record.graph->skip();
  } else {
    record.graph->replay(record, *this, done_ + 1, runner, worker);
  }
}

void CpuQueue::finish_graph(GraphRecord& record) {
  if (record.id != 0) {
    const Clock::time_point end = Clock::now();
    const bool skipped = record.begin == 0;
    detail::report_ran(record.id, stream(), {skipped ? end : Clock::time_point(Clock::duration(record.begin)), end});
  }
  record.graph->finished(*record.plan);
}

void CpuQueue::run_ticket(const TicketRecord& ticket, Runner& runner) {
  // A host thread that helps runs it to its end; only workers have other work to turn to.
  ticket.graph->help(*this, ticket.segment, runner, runner.worker);
}

}  // namespace weir::cpu
