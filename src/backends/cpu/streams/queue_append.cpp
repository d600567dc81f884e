// The producers' side of a queue: from commands to records. Launches have a file of their own.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>

#include "back_off.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/graphs/cpu_graph.hpp"
#include "backends/cpu/memory/memory_ops.hpp"
#include "backends/cpu/streams/cpu_event.hpp"
#include "backends/cpu/streams/cpu_queue.hpp"
#include "backends/cpu/streams/cpu_signal.hpp"
#include "backends/cpu/streams/queue_append.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

namespace {
constexpr std::uint64_t usual_patience = 8192;
// A consumer that is kept from its core for a moment must not look held up: its backlog would grow meanwhile.
constexpr auto stall_patience = std::chrono::milliseconds(1);
constexpr auto between_looks = std::chrono::microseconds(20);
constexpr int busy_looks = 64;

[[noreturn]] void refuse_memory(std::size_t bytes, const Origin& command) {
  throw Error(Errc::out_of_memory, "weir: submitting a command", "host memory",
              "no memory for " + std::to_string(bytes) + " bytes", command.where);
}
}  // namespace

[[gnu::noinline]] void CpuQueue::schedule() {
  if (!list()) return;
  pool_.note_host();
  pool_.push(this, level());
}

void CpuQueue::collect_blocking_queues() {
  hold_long();
  const Origin implied;
  if (!legacy_) {
    CpuQueue& legacy = device_.legacy();
    const std::uint64_t last = tail_giving_way(legacy);
    if (!legacy.reached(last) || legacy.failures_.failed_relaxed()) write_wait(legacy, last, implied);
    // With release: who finds nothing new here has also seen what was found finished just now.
    std::atomic_ref(producer_.default_seen).store(2 * last, std::memory_order_release);
    return;
  }
  device_.for_each_queue([&](CpuQueue& queue) {
    if (!queue.blocking() || &queue == this) return;
    const std::uint64_t tail = tail_awaiting(queue);
    if (tail == queue.legacy_waited_) return;
    if (!queue.reached(tail) || queue.failures_.failed_relaxed()) write_wait(queue, tail, implied);
    queue.legacy_waited_ = tail;  // once the wait is written: there may be no memory for it
  });
  device_.for_each_loser([&](CpuQueue& queue) {
    queue.failures_.tell_legacy([&](std::uint64_t sequence) { write_wait(queue, sequence, implied); });
  });
}

void CpuQueue::write_wait(CpuQueue& source, std::uint64_t sequence, const Origin& command) {
  auto* record = begin_record<WaitRecord>(command, RecordKind::wait, 0);
  record->source = &source;
  record->sequence = sequence;
  record->reports_seen = source.failures_.reports();
  if (command.id == 0) note_formality();
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

/// The record that is published next does nothing but hold the order. The lock is held.
void CpuQueue::note_formality() {
  const std::uint64_t next = tail() + 1;
  if (formalities_to_.load(std::memory_order_relaxed) != next - 1) {
    formalities_from_.store(next, std::memory_order_relaxed);
  }
  formalities_to_.store(next, std::memory_order_release);  // with finished()
}

std::byte* CpuQueue::next_chunk(std::size_t bytes) {
  hold_long();
  hold_back();
  Chunk* chunk;
  try {
    chunk = take_chunk(bytes);
  } catch (const std::bad_alloc&) {
    refuse_memory(bytes, Origin{});
  }
  auto* link = reinterpret_cast<Record*>(producer_.write);
  link->head = Record::heading(RecordKind::next_chunk, 0);
  producer_.chunk->next = chunk;
  producer_.write_in(*chunk);
  return producer_.write;
}

/// Producers that are faster than the consumer wait for it while it advances, so that memory stays flat. Behind a command
/// that holds the queue up they do not: no launch blocks because of a held kernel (better than R3).
void CpuQueue::hold_back() {
  const std::uint64_t last = tail();
  std::uint64_t seen = completed();
  if (last - seen < usual_patience) {
    producer_.patience = usual_patience;
    return;
  }
  if (last - seen < producer_.patience) return;
  using Clock = std::chrono::steady_clock;
  auto last_advance = Clock::now();
  for (int tries = 0; last - seen > usual_patience / 2; ++tries) {
    if (tries < 16) {
      pause(16);
    } else if (tries < busy_looks) {
      detail::back_off(tries);
    } else {
      std::this_thread::sleep_for(between_looks);
    }
    const std::uint64_t now_done = completed();
    const auto now = Clock::now();
    if (now_done != seen) {
      seen = now_done;
      last_advance = now;
      tries = std::min(tries, busy_looks / 2);
    } else if (now - last_advance > stall_patience) {
      producer_.patience = 2 * (last - seen);
      return;
    }
  }
}

void CpuQueue::submit(const Command& command) {
  if (const auto* launch = std::get_if<Launch>(&command.op)) [[likely]] {
    submit_launch(command, *launch);
    return;
  }
  visit_op(
      command.op, [&](const Launch&) {}, [&](const Copy& copy) { submit_copy(command, copy); },
      [&](const Fill& fill) { submit_fill(command, fill); },
      [](const Alloc&) {},  // the pool has done it: memory of this stream's own past needs no command
      [](const Free&) {},
      [&](const weir::Record& record) { static_cast<CpuEvent*>(record.event)->record(*this, command); },
      [&](const Wait& wait) { static_cast<CpuEvent*>(wait.event)->hold(*this, command); },
      [&](const HostCall& call) { submit_call(command, call.function, false); },
      [&](const External& call) { submit_call(command, call.function, true); },
      [&](const GraphLaunch& launch) { submit_graph(command, *static_cast<CpuGraph*>(launch.graph->executable)); },
      [&](const Collective& collective) { submit_collective(command, *collective.part); });
}

std::uint64_t CpuQueue::append_copy(const Command& command, const Copy& copy, bool owns_source) {
  const ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<CopyRecord>(command, RecordKind::copy, 0, owns_source);
  record->to = copy.to;
  record->from = copy.from;
  record->to_layout = copy.to_layout;
  record->from_layout = copy.from_layout;
  return publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

void CpuQueue::submit_copy(const Command& command, const Copy& copy) {
  const std::size_t bytes = copy.from_layout.shape.count() * copy.from_layout.element_bytes;
  const bool to_pageable = copy.to_kind == MemoryKind::pageable;
  if (copy.from_kind != MemoryKind::pageable && !to_pageable) {
    append_copy(command, copy, false);
    return;
  }
  if (!to_pageable && bytes <= detail::most_taken_bytes) {
    void* staged = std::malloc(bytes);
    if (staged == nullptr) refuse_memory(bytes, command);
    Copy rest = copy;
    rest.from = staged;
    rest.from_layout = dense_layout(copy.from_layout.shape, copy.from_layout.element_bytes);
    copy_elements(staged, rest.from_layout, copy.from, copy.from_layout);
    try {
      append_copy(command, rest, true);
    } catch (...) {
      std::free(staged);
      throw;
    }
    return;
  }
  const std::uint64_t number = append_copy(command, copy, false);
  wait_until(number);
  throw_failure(number, true);
}

void CpuQueue::submit_fill(const Command& command, const Fill& fill) {
  std::uint64_t number;
  {
    const ProducerLock guard(*this);
    order_with_default_stream();
    auto* record = begin_record<FillRecord>(command, RecordKind::fill, fill.layout.element_bytes + 16);
    record->to = fill.to;
    record->layout = fill.layout;
    std::memcpy(trailing(record, 16), fill.value, fill.layout.element_bytes);
    number = publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
  }
  if (fill.kind != MemoryKind::pageable) return;
  wait_until(number);
  throw_failure(number, true);
}

void CpuQueue::submit_call(const Command& command, detail::HostFunction* function, bool external) {
  const ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<CallRecord>(command, RecordKind::call, 0, external);
  record->function = function;
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

void CpuQueue::submit_graph(const Command& command, CpuGraph& graph) {
  const ProducerLock guard(*this);
  order_with_default_stream();
  // Before the graph is locked: to make room is to wait for a consumer that is far behind, and it needs that lock, too.
  make_room(round_record(sizeof(WaitRecord)) +
            round_record(sizeof(GraphRecord) + graph.marks() * sizeof(CpuEvent::Mark)));
  hold_long();  // an update of the graph may have that lock, and makes a plan under it
  const SpinGuard launching(graph.launch_lock());
  if (graph.follows_elsewhere(*this)) write_wait(graph.timeline(), graph.last_launch(), Origin{});
  auto* record = begin_record<GraphRecord>(command, RecordKind::graph, graph.marks() * sizeof(CpuEvent::Mark));
  const CpuGraph::Launching launch = graph.launch(*this, record->marks());
  record->graph = &graph;
  record->plan = launch.plan;
  record->started = false;
  record->source = launch.timeline;
  record->sequence = launch.sequence;
  record->reports_seen = 0;
  // With replay_is_over().
  replay_.store(0, std::memory_order_release);
  replay_timeline_.store(launch.timeline, std::memory_order_release);
  replay_number_.store(launch.sequence, std::memory_order_release);
  replay_.store(tail() + 1, std::memory_order_release);
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

void CpuQueue::append_ticket(CpuGraph& graph, std::uint32_t segment, int level, bool loud) {
  level_.store(level, std::memory_order_relaxed);
  ProducerLock guard(*this);
  auto* record = begin_record<TicketRecord>(Origin{}, RecordKind::ticket, 0);
  record->graph = &graph;
  record->segment = segment;
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
  if (!loud) guard.unlock_quietly(level);
}

std::uint64_t CpuQueue::append_stamp(Stamp* stamp, const Origin& command) {
  const ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<StampRecord>(command, RecordKind::stamp, 0);
  record->stamp = stamp;
  return publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

void CpuQueue::append_wait(CpuQueue& source, std::uint64_t sequence, const Origin& command) {
  // The stream's own order holds it back already (R82), and its own failure skips it; not that of an earlier stream.
  if (&source == this ? !failures_.lost_at(sequence) : source.passed(sequence)) {
    append_idle_wait(command);
    return;
  }
  ProducerLock guard(*this);
  order_with_default_stream();
  write_wait(source, sequence, command);
  guard.unlock_and_park();
}

/// A wait that has nothing to wait for takes part in the default stream's rules all the same, observed or not.
void CpuQueue::append_idle_wait(const Origin& command) {
  if (command.id != 0) {
    append_empty(command);  // observers want to see it run
  } else {
    mark();
  }
}

std::unique_ptr<detail::Signal> CpuQueue::wait_for_signal(const Command& command) {
  auto arrival = std::make_unique<Arrival>();
  auto signal = std::make_unique<CpuSignal>(*arrival);
  ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<SignalRecord>(command, RecordKind::signal, 0);
  record->arrival = arrival.release();
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
  guard.unlock_and_park();
  return signal;
}

void CpuQueue::submit_collective(const Command& command, detail::CollectivePart& part) {
  ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<CollectiveRecord>(command, RecordKind::collective, 0);
  record->part = &part;
  if (!part.placed) {
    part.place = tail();
    part.reports_seen = failures_.reports();
  }
  part.queue = this;
  part.call->retain();
  // It was let go before: a mark of its place.
  if (part.parked.load(std::memory_order_relaxed) != nullptr) note_formality();
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
  guard.unlock_and_park();
}

std::uint64_t CpuQueue::append_gather(detail::CollectiveCall& call, CpuTransport& transport) {
  const ProducerLock guard(*this);
  auto* record = begin_record<GatherRecord>(Origin{}, RecordKind::gather, 0);
  record->call = &call;
  record->transport = &transport;
  record->next = 0;
  call.retain();
  call.lane_number.store(tail() + 1, std::memory_order_relaxed);
  call.lane.store(this, std::memory_order_seq_cst);  // before anybody can run it: who parks from here on knows it
  return publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

void CpuQueue::append_share(detail::CollectiveCall& call) {
  const ProducerLock guard(*this);
  auto* record = begin_record<ShareRecord>(Origin{}, RecordKind::share, 0);
  record->call = &call;
  call.retain();
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

std::uint64_t CpuQueue::append_empty(const Origin& command) {
  const ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<cpu::Record>(command, RecordKind::empty, 0);
  if (command.id == 0) note_formality();
  return publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

std::uint64_t CpuQueue::mark() {
  if (legacy_) {
    return append_empty(Origin{});
  }
  // Acquire, with the release behind the wait that was written.
  const std::uint64_t seen = std::atomic_ref(producer_.default_seen).load(std::memory_order_acquire);
  if (producer_.default_tail->load(std::memory_order_seq_cst) == seen) return tail();  // D2
  const ProducerLock guard(*this);
  order_with_default_stream();
  return tail();
}

}  // namespace weir::cpu
