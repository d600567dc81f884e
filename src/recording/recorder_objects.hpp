// The places that streams, events, memory, devices and threads of a running program have in its recording.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <weir/observer.hpp>
#include <weir/recording.hpp>

#include "recording/memory_map.hpp"
#include "recording/recorder_names.hpp"
#include "recording/recorder_uses.hpp"

namespace weir::recorded {

/// Work as observers are told it: of a command, or of a graph's node.
struct Work {
  const weir::Op& op;
  std::span<const Region> uses;
  StreamId stream;
  std::uint32_t device;
  bool runs;  ///< else it is a node's: what it frees lives on
};

/// Thread rule: one at a time.
class Objects {
 public:
  /// `forgets`: what has ended gives its place and its name back, as far as the sink lets it; and nothing has a name that the
  /// program did not give it.
  Objects(Sink& sink, Names& names, bool forgets) : sink_(sink), names_(names), forgets_(forgets) {}

  /// Each returns a place, which is given at the first use; none for what is unknown.
  std::uint32_t thread(std::uint32_t number);
  std::uint32_t device(const weir::Device& of);
  std::uint32_t device(const HostWait& wait);
  bool simulated(std::uint32_t device) const { return device < simulated_.size() && simulated_[device]; }
  std::uint32_t stream(StreamId id, bool later = false);
  std::uint32_t device_of(StreamId id);
  /// Whether the host may read and write the memory of the stream's device where it is; false of an unknown stream.
  bool host_reaches(StreamId id);
  /// `state`: what the library keeps of it, and gives to another one when it is gone; null: only if it is known.
  std::uint32_t event(std::uint64_t id, StreamId stream, const void* state);

  void opened(const StreamInfo& stream) { streams_.insert_or_assign(stream.id, KnownStream{stream, none}); }
  /// The place that it had.
  std::uint32_t closed(StreamId id);
  void named(BufferId id, std::string_view name);
  void pinned(const void* data, std::size_t bytes, SourceLocation where) {
    memory_.pinned(data, bytes, where.line() == 0 ? none : names_.file(where.file_name()), where.line());
  }
  void unpinned(const void* data) { memory_.unpinned(data); }
  /// Memory that ends without a command.
  void forget(BufferId id, const void* data) { memory_.remove(id, data); }
  /// The memory that a Free has ended; `place` may be a range's.
  void ended(std::uint32_t place);
  /// Of host memory: what stands for the ranges of it that were used.
  std::vector<MemoryMap::Part> parts_of(const void* data, std::size_t bytes) const;
  void host_gone(const void* data, std::size_t bytes);

  /// Op, target and uses of work that is no launch of a graph; Op::empty where nothing is copied or filled. `made` is a Command or a Node.
  template <class Made>
  void describe(const Work& work, Made& made, std::vector<Use>& uses);
  void add_uses(std::span<const Region> regions, MemoryKind kind, std::uint32_t device, std::vector<Use>& uses) {
    uses_.add(regions, kind, device, uses);
  }

  /// Buffers are added, and uses learn where they are: `resolve` shows each.
  using Resolve = std::function<void(const std::function<void(Use&)>&)>;
  void finish(Recording& recording, const Resolve& resolve);
  /// While the program runs. `place`: of a use or target, without range_bit.
  const Buffer& buffer(std::uint32_t place) const { return buffers_[place]; }
  const MemoryMap& memory() const { return memory_; }
  /// What all this takes, and what finish() will.
  std::size_t bytes() const;

 private:
  struct KnownStream {
    StreamInfo info;
    std::uint32_t place;
    Name name = none;
    std::uint32_t device = none;
  };
  KnownStream* known(StreamId id);
  std::uint32_t device_of(KnownStream& stream);
  std::uint32_t new_buffer(const Alloc& alloc, MemoryKind kind, std::uint32_t device);
  void add_copy(const Copy& copy, std::span<const Region> regions, std::uint32_t device, std::vector<Use>& uses);
  void note_kind(const Use& use, MemoryKind kind);

  Sink& sink_;
  Names& names_;
  const bool forgets_;
  MemoryMap memory_;
  Uses uses_{memory_};
  std::unordered_map<StreamId, KnownStream> streams_;
  StreamId last_stream_ = 0;  ///< that was asked for; 0: none, or it is gone
  KnownStream* last_known_ = nullptr;
  std::unordered_map<std::uint64_t, std::uint32_t> events_;
  std::unordered_map<const void*, std::uint64_t> event_states_;  ///< whose they are
  std::unordered_map<std::uint32_t, std::uint32_t> threads_;
  std::uint32_t last_thread_ = 0;  ///< that was asked for, and its place
  std::uint32_t last_thread_place_ = 0;
  std::unordered_map<std::string, std::uint32_t> devices_;
  std::vector<bool> simulated_;             ///< by devices
  std::vector<std::uint32_t> free_places_;  ///< of buffers
  std::vector<Buffer> buffers_;  ///< added when the recording ends, for their names and kinds are not known before
};

template <class Made>
void Objects::describe(const Work& work, Made& made, std::vector<Use>& uses) {
  const auto is = [&](Op op) { made.op = op; };
  const auto targets = [&](Op op, Target kind, std::uint32_t place) {
    made.op = op;
    made.target_kind = kind;
    made.target = place;
  };
  visit_op(
      work.op,
      [&](const Launch&) {
        is(Op::launch);
        uses_.add(work.uses, MemoryKind::device, work.device, uses);
        for (const Use& use : uses) note_kind(use, MemoryKind::pinned);  // kernels reach no pageable memory
      },
      [&](const Copy& copy) {
        is(Op::copy);
        add_copy(copy, work.uses, work.device, uses);
        if (uses.size() < 2) {  // of no bytes, or from a graph file that declares one side
          is(Op::empty);
          uses.clear();
        }
      },
      [&](const Fill& fill) {
        is(Op::fill);
        uses_.add(work.uses, fill.kind, work.device, uses);
        if (uses.empty()) is(Op::empty);
      },
      [&](const Alloc& alloc) {
        const bool on_host = work.runs && work.stream == 0;
        const MemoryKind host = alloc.pinned ? MemoryKind::pinned : MemoryKind::pageable;
        targets(Op::alloc, Target::buffer, new_buffer(alloc, on_host ? host : MemoryKind::device, work.device));
      },
      [&](const Free& free) {
        targets(Op::free, Target::buffer,
                work.runs ? memory_.remove(free.buffer, free.data) : memory_.place_of(free.buffer));
        if (!work.runs && made.target == none) targets(Op::empty, Target::none, none);  // of no bytes
      },
      [&](const Record& record) {
        targets(Op::record, Target::event, event(record.event_id, work.stream, record.event));
      },
      [&](const Wait& wait) { targets(Op::wait, Target::event, event(wait.event_id, work.stream, wait.event)); },
      [&](const HostCall&) {
        is(Op::host_function);
        uses_.add(work.uses, MemoryKind::pageable, work.device, uses);
      },
      [&](const External&) {
        is(Op::external);
        uses_.add(work.uses, MemoryKind::device, work.device, uses);
      },
      [&](const GraphLaunch&) {},
      [&](const weir::Collective&) {
        is(Op::external);
        uses_.add(work.uses, MemoryKind::device, work.device, uses);
      });
}

}  // namespace weir::recorded
