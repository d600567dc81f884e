// Launches become records: the hot path of the CPU.
#include <cstring>

#include "backends/cpu/streams/queue_append.hpp"

namespace weir::cpu {

namespace {
constexpr std::size_t ahead = 256;  ///< how far before they are written records are asked for, in bytes

/// By pieces that stand in a register each: of one copy the compiler makes more instructions.
template <std::size_t bytes>
[[gnu::always_inline]] inline void copy_closure(std::byte* to, const void* from) {
  using Piece [[gnu::vector_size(16), gnu::may_alias]] = long long;
  using Anywhere [[gnu::aligned(1)]] = Piece;
  for (std::size_t i = 0; i < bytes / sizeof(Piece); ++i) {
    reinterpret_cast<Piece*>(to)[i] = static_cast<const Anywhere*>(from)[i];
  }
}
}  // namespace

/// Writes a launch whose closure is empty or copied in one piece of `room` bytes; there is room. Returns the record's length.
template <std::size_t room>
[[gnu::always_inline]] inline std::size_t CpuQueue::write_plain(std::byte* at, const Kernel& kernel,
                                                                const void* closure, std::size_t size,
                                                                const detail::LaunchSite& site) {
  constexpr std::size_t bytes = round_record(sizeof(LaunchRecord) + room);
  auto* record = reinterpret_cast<LaunchRecord*>(at);
  std::memcpy(static_cast<void*>(&record->where), &site.where, sizeof site.where);  // in one piece, padding and all
  record->head = cpu::Record::heading(RecordKind::launch, bytes);
  record->kernel = &kernel;
  record->size = size;
  static_assert(sizeof(LaunchRecord) % 16 == 0, "the closure follows at once");
  static_assert(bytes <= most_plain_bytes);
  copy_closure<room>(at + sizeof(LaunchRecord), closure);
  return bytes;
}

/// The hot path: nobody else appending, room in the chunk, nothing new in the default stream. Without a stack frame: every
/// other case is a tail call.
template <std::size_t room>
[[gnu::always_inline]] inline void CpuQueue::launch_plain(StreamId stream, const Kernel& kernel, const void* closure,
                                                          std::size_t size, const detail::LaunchSite& site) {
  if (!try_lock()) [[unlikely]] {
    launch(stream, kernel, closure, size, site);
    return;
  }
  std::byte* const at = producer_.write;
  if (at > producer_.plain_end || default_stream_is_new()) [[unlikely]] {
    launch_locked<room>(stream, kernel, closure, size, site);
    return;
  }
  producer_.write += write_plain<room>(at, kernel, closure, size, site);
  prefetch_to_write(at + ahead);
  if (publish_and_unlock()) [[unlikely]]
    schedule();
}

/// The same where the default stream or the end of the chunk comes first. The lock is held. With the arguments in the
/// registers where they are.
template <std::size_t room>
[[gnu::noinline]] void CpuQueue::launch_locked(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                                               const detail::LaunchSite& site) {
  if constexpr (room == 0) {
    if (kernel.copy != nullptr) {  // an empty kernel's own constructor, which may throw
      unlock_unchanged();
      launch(0, kernel, closure, size, site);
      return;
    }
  }
  const ProducerLock guard(*this, std::adopt_lock);
  order_with_default_stream();
  make_room(round_record(sizeof(LaunchRecord) + room));
  producer_.write += write_plain<room>(producer_.write, kernel, closure, size, site);
  publish();
}

template void CpuQueue::launch_locked<0>(StreamId, const Kernel&, const void*, std::size_t, const detail::LaunchSite&);
template void CpuQueue::launch_locked<32>(StreamId, const Kernel&, const void*, std::size_t, const detail::LaunchSite&);
template void CpuQueue::launch_locked<64>(StreamId, const Kernel&, const void*, std::size_t, const detail::LaunchSite&);

void CpuQueue::launch_empty(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                            const detail::LaunchSite& site) {
  launch_plain<0>(stream, kernel, closure, size, site);
}
void CpuQueue::launch_32(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site) {
  launch_plain<32>(stream, kernel, closure, size, site);
}
void CpuQueue::launch_64(StreamId stream, const Kernel& kernel, const void* closure, std::size_t size,
                         const detail::LaunchSite& site) {
  launch_plain<64>(stream, kernel, closure, size, site);
}

/// For closures of any kind, and whatever is in the way of the others: from there a tail call, with everything in the
/// registers where it is.
void CpuQueue::launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                      const detail::LaunchSite& site) {
  Command command;
  command.where = site.where;
  command.op = Launch{&kernel, closure, Shape(size), 0, 0, 0, nullptr};
  submit_launch(command, std::get<Launch>(command.op));
}

void CpuQueue::submit_launch(const Command& command, const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  if (kernel.rank != 1 || kernel.copy != nullptr || kernel.closure_align > 16 || launch.name != nullptr ||
      command.id != 0) [[unlikely]] {
    submit_launch_shaped(command, launch);
    return;
  }
  const ProducerLock guard(*this);
  order_with_default_stream();
  auto* record = begin_record<LaunchRecord>(command, RecordKind::launch, kernel.closure_bytes);
  record->kernel = &kernel;
  record->size = launch.extent[0];
  if (kernel.closure_bytes != 0) std::memcpy(trailing(record, 16), launch.closure, kernel.closure_bytes);
  publish_record(reinterpret_cast<std::byte*>(record) + record->bytes());
}

void CpuQueue::submit_launch_shaped(const Command& command, const Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  const std::size_t alignment = kernel.closure_align > 16 ? kernel.closure_align : 16;
  const std::size_t extra = kernel.closure_bytes + alignment;
  const auto place_closure = [&](void* at) {
    if (kernel.copy != nullptr) {
      hold_long();                      // what a user's constructor does may wait for this queue's worker
      kernel.copy(at, launch.closure);  // may throw: nothing is published yet
    } else {
      std::memcpy(at, launch.closure, kernel.closure_bytes);
    }
  };
  const ProducerLock guard(*this);
  order_with_default_stream();
  std::byte* end;
  if (kernel.rank == 0) {
    auto* record = begin_record<LaunchBlocksRecord>(command, RecordKind::launch_blocks, extra);
    record->kernel = &kernel;
    record->name = launch.name;
    record->sizes = detail::block_sizes(launch.extent, launch.thread_shape);
    record->shared_bytes = launch.shared_bytes;
    place_closure(trailing(record, alignment));
    end = reinterpret_cast<std::byte*>(record) + record->bytes();
  } else {
    auto* record = begin_record<LaunchManyRecord>(command, RecordKind::launch_many, extra);
    record->kernel = &kernel;
    record->name = launch.name;
    record->extent = launch.extent;
    place_closure(trailing(record, alignment));
    end = reinterpret_cast<std::byte*>(record) + record->bytes();
  }
  publish_record(end);
}

}  // namespace weir::cpu
