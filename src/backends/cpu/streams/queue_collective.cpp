// The consumer's side of collectives: a rank's part holds its queue; a transport's queue gathers the parts and does the work.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "back_off.hpp"
#include "backends/cpu/collectives/cpu_transport.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "failure_reports.hpp"

namespace weir::cpu {

namespace {

using Clock = std::chrono::steady_clock;
using detail::CollectiveCall;
using detail::CollectivePart;

Clock::time_point time_of(std::int64_t nanoseconds) {
  return Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::nanoseconds(nanoseconds)));
}
std::int64_t now_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

std::size_t chunks_of(const CollectiveCall& call) { return (call.extent() + call.grain() - 1) / call.grain(); }

/// Takes chunks until none is left.
void take_chunks(CollectiveCall& call) {
  const std::size_t count = chunks_of(call);
  for (;;) {
    const std::size_t chunk = call.next_chunk.fetch_add(1, std::memory_order_relaxed);
    if (chunk >= count) return;
    call.run(chunk * call.grain(), std::min((chunk + 1) * call.grain(), call.extent()));
    call.done_chunks.fetch_add(1, std::memory_order_release);
  }
}
void take_chunks_in_loop(void* context, std::size_t, std::size_t, Runner&) {
  take_chunks(*static_cast<CollectiveCall*>(context));
}

}  // namespace

/// What stands before the part is over.
void CpuQueue::come_to(CollectivePart& part) {
  if (part.ready_nanoseconds.load(std::memory_order_relaxed) != 0) return;
  part.ready_nanoseconds.store(now_nanoseconds(), std::memory_order_release);
  if (!part.call->is_told()) return;
  know_told(part.call);
  part.call->arrived(part, failures_.inherited_at(part.place, part.reports_seen));
}

void CpuQueue::know_told(CollectiveCall* call) {
  for (int looks = 0; told_taken_.test_and_set(std::memory_order_acquire); ++looks) back_off(looks);
  told_.store(call, std::memory_order_relaxed);
  told_taken_.clear(std::memory_order_release);
}

/// A host thread that waits for this queue does what the collective needs. True: it is over.
bool CpuQueue::help_told() {
  if (told_.load(std::memory_order_relaxed) == nullptr) return false;
  for (int looks = 0; told_taken_.test_and_set(std::memory_order_acquire); ++looks) back_off(looks);
  CollectiveCall* const call = told_.load(std::memory_order_relaxed);
  if (call != nullptr) call->retain();
  told_taken_.clear(std::memory_order_release);
  if (call == nullptr) return false;
  call->help();
  const bool over = call->over();
  call->release();
  return over;
}

/// True if the queue belongs to nobody until its part is let go; false if it was.
bool CpuQueue::park(CollectiveRecord& record) {
  CollectivePart& part = *record.part;
  CollectiveCall& call = *part.call;
  come_to(part);
  if (Queue* lane = call.lane.load(std::memory_order_acquire)) {
    help_in(static_cast<CpuQueue&>(*lane), call.lane_number.load(std::memory_order_relaxed));
  }
  Queue* nobody = nullptr;
  return part.parked.compare_exchange_strong(nobody, this, std::memory_order_seq_cst);
}

void CpuQueue::help_in(CpuQueue& lane, std::uint64_t number) {
  lane_number_.store(number, std::memory_order_relaxed);
  lane_.store(&lane, std::memory_order_release);
}

CpuQueue* CpuQueue::collective_lane(std::uint64_t& number) const {
  CpuQueue* const lane = lane_.load(std::memory_order_acquire);
  if (lane != nullptr) number = lane_number_.load(std::memory_order_relaxed);
  return lane;
}

bool CpuQueue::take_part(CollectiveRecord& record, Runner& runner, bool worker) {
  CollectivePart& part = *record.part;
  CollectiveCall& call = *part.call;
  if (!worker) {
    if (Queue* lane = call.lane.load(std::memory_order_acquire)) {
      help_source(static_cast<CpuQueue&>(*lane), call.lane_number.load(std::memory_order_relaxed), runner);
    }
    if (call.is_told()) {
      come_to(part);
      call.help();
    }
  }
  if (park(record)) return false;
  lane_.store(nullptr, std::memory_order_relaxed);
  if (call.is_told()) know_told(nullptr);
  if (part.failure && !failures_.failed_relaxed()) {
    detail::note_unseen(part.failure);
    detail::report_failed(stream(), 0, *part.failure);
    failures_.fail(done_ + 1, part.failure);
  }
  if (record.id != 0) {
    detail::report_ran(record.id, stream(),
                       {time_of(part.ready_nanoseconds.load(std::memory_order_relaxed)), Clock::now()});
  }
  call.release();
  return true;
}

bool CpuQueue::gather(GatherRecord& record, Runner& runner, bool worker) {
  CollectiveCall& call = *record.call;
  const auto parts = call.parts();
  for (; record.next < parts.size() && call.open(); ++record.next) {
    CollectivePart& part = parts[record.next];
    auto& source = static_cast<CpuQueue&>(*part.queue);
    if (!worker) help_source(source, part.place, runner);
    if (park_on(source, part.place)) return false;
    if (auto failure = source.failures_.inherited_at(part.place, part.reports_seen)) {
      call.fail_part(record.next, std::move(failure));
    }
  }
  if (call.begin()) {
    if (chunks_of(call) > 1) {
      for (CpuQueue* helper : record.transport->helpers()) {
        try {
          helper->append_share(call);
        } catch (...) {
          // There is no memory for it: those who are here do it all.
        }
      }
    }
    run_chunks(call, runner);
    const std::size_t count = chunks_of(call);
    for (int looks = 0; call.done_chunks.load(std::memory_order_acquire) < count; ++looks) {
      if (looks < 64) {
        pause(16);
      } else {
        detail::back_off(looks);
      }
    }
    call.end();
    for (CollectivePart& part : parts) CpuTransport::give(part);
  }
  call.release();
  return true;
}

void CpuQueue::run_share(ShareRecord& record, Runner& runner) {
  run_chunks(*record.call, runner);
  record.call->release();
}

void CpuQueue::run_chunks(CollectiveCall& call, Runner& runner) {
  const std::size_t count = chunks_of(call);
  if (count < 2 || pool_.width() < 2) {
    take_chunks(call);
  } else {
    pool_.run_split(&take_chunks_in_loop, &call, std::min(count, static_cast<std::size_t>(pool_.width())), 1, runner);
  }
}

}  // namespace weir::cpu
