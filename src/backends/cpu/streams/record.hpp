// How commands lie in a queue's memory: records of varying length in recycled chunks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <weir/host_call.hpp>
#include <weir/kernel.hpp>
#include <weir/op.hpp>

#include "collective_call.hpp"

namespace weir::cpu {

class CpuGraph;
class CpuQueue;
class CpuTransport;
struct Arrival;
struct Stamp;

enum class RecordKind : std::uint8_t {
  next_chunk,   ///< not a command: the next record is at the beginning of the next chunk
  launch,       ///< a kernel over one dimension, with a plain closure, no name of the user's, and no observer
  launch_many,  ///< any other kernel over elements
  launch_blocks,
  copy,
  fill,
  call,        ///< host function or foreign work
  stamp,       ///< a timed event's record
  ticket,      ///< takes part in a replay
  share,       ///< helps with a collective's work
  wait,        ///< this one and those up to gather hold their queue: see holds()
  signal,      ///< a wait for an event of another backend
  graph,       ///< a replay, until it is over
  collective,  ///< a rank's part, until it was let go
  gather,      ///< in a transport's queue: waits for all parts, does the work, lets the parts go
  empty,       ///< takes part in the order, does nothing
};

/// Whether the queue may be parked at such a record, and goes on there.
constexpr bool holds(RecordKind kind) { return kind >= RecordKind::wait && kind <= RecordKind::gather; }

/// What a record keeps of its command.
struct Origin {
  SourceLocation where;
  CommandId id = 0;

  Origin() = default;
  Origin(SourceLocation w) : where(w) {}
  Origin(const Command& command) : where(command.where), id(command.id) {}
};

/// The beginning of every record. Aligned, so that what follows a record is, too.
struct alignas(16) Record {
  /// Kind, flag and length in one word, which a launch writes by one instruction.
  static constexpr std::uint64_t heading(RecordKind kind, std::size_t bytes, bool flag = false) {
    return static_cast<std::uint64_t>(bytes) << 16 | (flag ? 0x100u : 0u) | static_cast<std::uint64_t>(kind);
  }
  RecordKind kind() const { return static_cast<RecordKind>(head & 0xff); }
  std::size_t bytes() const { return head >> 16; }  ///< leads to the next record
  /// A call: foreign work, not a host function. A copy: `from` is a staging buffer to be freed.
  bool flag() const { return (head & 0x100) != 0; }
  bool observed() const { return kind() != RecordKind::launch && id != 0; }

  SourceLocation where;
  std::uint64_t head;
  CommandId id;  ///< not written for RecordKind::launch
};

struct LaunchRecord : Record {
  const Kernel* kernel;
  std::size_t size;
  // the closure follows, aligned
};
struct LaunchManyRecord : Record {
  const Kernel* kernel;
  const char* name;
  Shape extent;
};
struct LaunchBlocksRecord : Record {
  const Kernel* kernel;
  const char* name;
  detail::BlockSizes sizes;
  std::size_t shared_bytes;
};
struct CopyRecord : Record {
  void* to;
  const void* from;
  Layout to_layout;
  Layout from_layout;
};
struct FillRecord : Record {
  void* to;
  Layout layout;
  // the element follows
};
struct CallRecord : Record {
  detail::HostFunction* function;
};
struct StampRecord : Record {
  Stamp* stamp;
};
struct WaitRecord : Record {
  CpuQueue* source;
  std::uint64_t sequence;
  std::uint32_t reports_seen;  ///< of the source's failures, when the wait was enqueued
};

struct SignalRecord : Record {
  Arrival* arrival;
};

struct CollectiveRecord : Record {
  detail::CollectivePart* part;
};
struct GatherRecord : Record {
  detail::CollectiveCall* call;
  CpuTransport* transport;
  std::size_t next;  ///< the part whose place it waits for
};
struct ShareRecord : Record {
  detail::CollectiveCall* call;
};

struct TicketRecord : Record {
  CpuGraph* graph;
  std::uint32_t segment;  ///< to begin with
};

inline void* align_up(void* address, std::size_t alignment) {
  const auto value = reinterpret_cast<std::uintptr_t>(address);
  return reinterpret_cast<void*>((value + alignment - 1) & ~(std::uintptr_t{alignment} - 1));
}
/// Where a record's closure or value is.
template <class R>
void* trailing(R* record, std::size_t alignment) {
  return align_up(reinterpret_cast<std::byte*>(record) + sizeof(R), alignment);
}
static_assert(sizeof(LaunchRecord) <= 64, "an empty launch takes at most one cache line");
constexpr std::size_t round_record(std::size_t bytes) { return (bytes + 15) & ~std::size_t{15}; }
constexpr std::size_t most_plain_bytes = sizeof(LaunchRecord) + 64;  ///< of a launch that takes the hot path

/// A piece of a queue's memory. Consumers give chunks back to producers.
struct alignas(64) Chunk {
  static constexpr std::size_t usual_bytes = 8192;

  Chunk* next;
  std::size_t bytes;  ///< of the whole chunk; others than usual_bytes are not recycled

  std::byte* begin() { return reinterpret_cast<std::byte*>(this) + sizeof(Chunk); }
  /// Leaves room for a next_chunk record.
  std::byte* end() { return reinterpret_cast<std::byte*>(this) + bytes - round_record(sizeof(Record)); }
};

/// Chunks for all queues: a stack of free ones. Bounded, so that a burst does not keep its memory for ever.
Chunk* take_chunk(std::size_t payload_bytes);
void give_chunk(Chunk* chunk) noexcept;

}  // namespace weir::cpu
