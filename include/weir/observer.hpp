// Observers: how tools see a program. Checkers, tracers and users' own tools are observers and need public headers only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <weir/device.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

/// When a command ran, on the steady clock.
struct Span {
  std::chrono::steady_clock::time_point begin;
  std::chrono::steady_clock::time_point end;
};

/// What the host waited for: everything (stream 0, no event), a device, a stream or an event.
struct HostWait {
  enum class Kind : std::uint8_t { all, device, stream, event };
  Kind kind;
  int device = -1;  ///< index within its backend; -1 for all
  StreamId stream = 0;
  std::uint64_t event_id = 0;
  SourceLocation where;
};

struct StreamInfo {
  StreamId id;
  std::string name;
  Device device;
  int priority;
  bool blocking;
  bool legacy;
};

/// Derive, override what you need, attach. Calls of one stream come in the stream's order; submitted(), opened(), closed()
/// and waited() are serialised among all threads, ran() comes from worker threads and may overlap everything. No Weir call
/// is permitted inside any of them, except to_text() and accessors of the arguments. An observer must not throw.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A command is about to enter its stream. The command and its spans are valid during the call only.
  virtual void submitted(const Command&) {}
  /// A command has run (or was skipped after a failure: then begin == end).
  virtual void ran(CommandId, StreamId, Span) {}
  /// The host has waited; everything named was finished.
  virtual void waited(const HostWait&) {}
  virtual void opened(const StreamInfo&) {}
  virtual void closed(StreamId) {}
};

/// Attaching costs every later command a lock; without observers nothing is paid. Work already in flight is not reported.
/// Thread rule: any thread; detach() returns when no callback of this observer is running.
void attach(Observer& observer);
void detach(Observer& observer);

/// One line of text for a command: "launch Saxpy [1000] read 0x10..0x20". For tools, tests and messages.
std::string to_text(const Command& command);
std::string to_text(const Op& op);

}  // namespace weir
