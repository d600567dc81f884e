// Captures: which streams record instead of execute, into what, and what they forbid meanwhile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include <weir/graph.hpp>

#include "core/runtime.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

class Capture;
class GraphEdit;

/// Where new nodes belong: the graph itself, or a body of a conditional node.
struct ScopeOf {
  std::int32_t parent = -1;
  std::uint32_t branch = 0;
  friend bool operator==(const ScopeOf&, const ScopeOf&) = default;
};

/// What a capturing stream's calls go to. Recycled, never deleted: a call that is late finds no capture, and goes on to
/// the queue.
class Recorder final : public Queue {
 public:
  void submit(const Command& command) override;
  void record(EventState& event, SourceLocation where) override;
  void wait(EventState& event, SourceLocation where) override;
  std::unique_ptr<Signal> wait_for_signal(const Command& command) override;
  void follow(Queue& other, StreamId owner) override { real->follow(other, owner); }
  bool done() override { return real->done(); }
  bool is_over(StreamId owner) override { return real->is_over(owner); }
  void synchronize(const char* operation, SourceLocation where) override { real->synchronize(operation, where); }
  void drain() noexcept override { real->drain(); }
  void retire() noexcept override {}

  /// A node that records or waits for an event in each replay. The lock is held.
  void add_event_node(const Op& op, SourceLocation where);

  GraphEdit* edit = nullptr;  ///< what commands are for, if not for a capture; under the lock of the graph's changes

  // Of a capture: under captures_lock(). What is made by hand has one thread at a time.
  Capture* capture = nullptr;
  StreamState* stream = nullptr;  ///< null once it was destroyed
  StreamId id = 0;
  Queue* real = nullptr;
  DriverCapture* driver = nullptr;   ///< the real queue's, if the driver takes part
  std::vector<std::uint32_t> tails;  ///< what the next node depends on
  ScopeOf scope;                     ///< where its tails are
  std::string name;
  int device = 0;
  int priority = 0;

 private:
  /// Whether the driver takes part in what is recorded now: bodies of conditional nodes it gets when they are complete.
  bool with_driver() const;
  void hand_to_driver(const Command& command, Payload& payload);
  /// Ends the capture: it waits for what is not in it. Returns if the event was never recorded.
  void refuse_outside(EventState& event, const char* advice, SourceLocation where);
  struct Child {
    GraphForm form;
    std::shared_ptr<const void> beyond;
  };
  static Child child_of(GraphState& graph);
  void add_child(Child&& child, SourceLocation where);
};

/// One capture, under captures_lock(); or the making of one graph by hand, by one thread at a time.
class Capture {
 public:
  std::uint64_t id = 0;
  std::thread::id thread;
  CaptureMode mode = CaptureMode::per_thread;
  bool by_hand = false;  ///< a GraphBuilder's: forbids nothing, knows no events
  Recorder* origin = nullptr;
  std::vector<Recorder*> recorders;
  GraphForm form;
  ScopeOf scope;
  /// What the streams depended on where the open bodies of conditional nodes begin.
  struct Outside {
    Recorder* recorder;
    ScopeOf scope;
    std::vector<std::uint32_t> tails;
  };
  std::vector<std::vector<Outside>> outside;
  std::optional<Error> broken;                           ///< the first error: the capture is void
  std::size_t elsewhere = 0;                             ///< commands of its thread that went to other streams
  std::string first_elsewhere;                           ///< what the first of them was
  std::vector<EventRef> timed;                           ///< recorded by nodes
  std::unordered_map<BufferId, std::uint32_t> kept;      ///< arrays made here: how often nodes hold them
  std::unordered_map<const void*, BufferId> raw;         ///< pool memory without an array made here
  std::unordered_map<BufferId, std::uint32_t> freed_by;  ///< nodes that end what was made here
  /// Memory that ended here and that nothing else has begun in since. Alive: its Free node holds it.
  struct Ended {
    Storage* storage;
    std::uint32_t free;
  };
  std::vector<Ended> ended;
  std::unordered_map<BufferId, std::uint32_t> made_by;  ///< nodes that begin what was made here
  bool calls = false;                  ///< host functions are in it: what comes behind may have to be skipped
  std::uint32_t open_collectives = 0;  ///< that some rank has yet to call
  /// A communicator's last collective, or the last one of two ranks' sends: the next one comes behind it.
  struct LastCollective {
    std::uint64_t communicator;
    std::vector<int> pair;  ///< empty: all ranks
    std::uint32_t node;
  };
  std::vector<LastCollective> last_collectives;
  /// The calls of one group are nodes that do not come behind each other.
  struct Unit {
    std::uint64_t number = 0;
    std::vector<std::pair<Recorder*, std::vector<std::uint32_t>>> before;  ///< the tails that its streams had
  };
  Unit last_unit;
  std::optional<std::uint32_t> last_handed;  ///< the last one that all have called, of those that the host does not run
  bool allocates_raw = false;                ///< memory without an array: known by its address, which is its own

  /// A node behind the recorder's tails.
  std::uint32_t add(Recorder& recorder, NodeKind kind, std::shared_ptr<const Payload> payload, SourceLocation where);
  /// A launch; of a unit, unless that is 0: behind what its stream had before all of them.
  std::uint32_t add_to_unit(Recorder& recorder, std::uint64_t unit, std::shared_ptr<const Payload> payload,
                            SourceLocation where);
  /// A node that was added empty gets what it does.
  void complete(std::uint32_t node, NodeKind kind, std::shared_ptr<const Payload> payload);
  /// A node is out of the form again, as if it had never been added.
  void take_back(const FormNode& node) noexcept;
  bool raw_contains(BufferId buffer) const {
    for (const auto& [data, raw_buffer] : raw) {
      if (raw_buffer == buffer) return true;
    }
    return false;
  }
  /// Throws unless the recorder's stream takes part in the present scope.
  void check_scope(const Recorder& recorder, const char* operation, SourceLocation where);
  /// Throws capture_invalidated, naming the first error.
  void check_valid(const char* operation, const std::string& object, SourceLocation where) const;
};

/// How many captures are active in the process; what host waits look at.
extern std::atomic<int> active_captures;
std::uint64_t next_graph_id();

/// Joins a stream to a capture.
Recorder& open_recorder(Capture& capture, StreamRef stream) WEIR_NEEDS(captures_lock());
/// Ends recording on all streams of a capture.
void close_recorders(Capture& capture, bool discard) WEIR_NEEDS(captures_lock());
NodeKind kind_of(const Op& op);
/// Throws not_supported if `levels` of graphs and bodies inside of `parent` are too many.
void check_nesting(const GraphForm& form, std::int32_t parent, std::uint32_t levels, const char* operation,
                   const std::string& object, SourceLocation where);
/// Whether a launch does nothing, and says so to who asked for it, where an earlier host function may still fail.
bool decline(const Launch& launch);
/// Appends a graph's nodes as the body of a child graph's node. Nothing fails where there is room.
void insert_form(GraphForm& form, GraphForm&& child, std::uint32_t parent);
/// Whether every stream of the present scope was joined back to `to`: the name of one that was not, else empty.
std::string unjoined_stream(const Capture& capture, const Recorder& to);
/// Makes the graph of a form. Handles of its nodes name `family`, or the graph itself.
Graph instantiate(GraphForm&& form, std::uint64_t id, DeviceState& device, void* driver_graph, const char* operation,
                  SourceLocation where, std::uint64_t family = 0);

/// What the rest of the core asks. Each begins with one load while nobody captures.
void check_waits_slowly(StreamState* stream, DeviceState* device, bool devices, const char* operation,
                        const std::string& object, SourceLocation where);
/// Waits of the host for what no capture of this thread or of the process forbids (R115 to R118, R148).
inline void check_host_wait(const char* operation, const char* object, SourceLocation where) {
  if (active_captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
    check_waits_slowly(nullptr, nullptr, false, operation, object, where);
}
inline void check_stream_wait(StreamState& stream, const char* operation, SourceLocation where) {
  if (active_captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
    check_waits_slowly(&stream, nullptr, false, operation, describe(stream), where);
}
inline void check_device_wait(DeviceState* device, const char* operation, SourceLocation where) {
  if (active_captures.load(std::memory_order_relaxed) != 0) [[unlikely]]
    check_waits_slowly(nullptr, device, true, operation, device != nullptr ? "device " + device->name : "all devices",
                       where);
}

/// A command that is not captured, of a thread that may be capturing.
void note_elsewhere(const StreamState& stream, const char* operation, SourceLocation where);

/// Asks the policies about a command that is about to be recorded.
void ask_about_captured(StreamRef stream, Command& command);

[[noreturn]] void refuse_captured_event(EventRef event, const char* operation, SourceLocation where);
/// A normal record follows: the event is an ordinary one again (R119).
void forget_captured_record(EventRef event);
/// A wait for an event whose last record was captured: joins the capture.
void wait_captured(StreamRef stream, EventRef event, SourceLocation where);
/// The stream is being destroyed while it captures (R145).
void leave_capture(StreamState& stream) noexcept;

// Memory that is made and ends inside captures (capture_memory.cpp).

void allocate_captured(Recorder& recorder, Storage& storage, const char* operation, SourceLocation where);
void* allocate_captured(Recorder& recorder, PoolState& pool, std::size_t bytes, SourceLocation where);
/// Whether a free of pool memory concerns a capture or a graph, and was done.
bool free_captured(StreamState& stream, PoolState& pool, void* data, const char* operation, SourceLocation where);
/// Throws invalid_value for a free into a capture of what was not made in one (R138).
void check_free_into(const Storage& storage, StreamRef stream, const char* operation, SourceLocation where);
/// An array that was made in a capture was freed, or an owner let go of it.
void note_freed(BufferId buffer, std::uint64_t capture, StreamRef stream, SourceLocation where);
void note_released(BufferId buffer, std::uint64_t capture) noexcept;
void forget_raw_memory(const void* data) noexcept;
Capture* find_capture(std::uint64_t id) WEIR_NEEDS(captures_lock());

}  // namespace weir::detail
