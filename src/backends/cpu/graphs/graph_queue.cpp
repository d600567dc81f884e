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
  while (!try_acquire()) pause();  // a worker that finds nothing to do may have it for a moment
  counting_from_ = done_;
}

void CpuQueue::end_counting() noexcept {
  parked_on_.store(nullptr, std::memory_order_release);
  retired_.store(true, std::memory_order_seq_cst);
  release();
}

void CpuQueue::help_by(CpuQueue& lane) {
  parked_until_.store(lane.tail(), std::memory_order_relaxed);
  parked_on_.store(&lane, std::memory_order_release);
}

void CpuQueue::start_graph(GraphRecord& record, Runner& runner, bool worker) {
  if (record.started) return;
  record.started = true;
  if (record.id != 0) record.begin = Clock::now().time_since_epoch().count();
  if (failures_.failed_relaxed()) {
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
