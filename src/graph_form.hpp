// The seam, graphs: what a graph is between the core, which records and changes it, and a backend, which replays it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <weir/detail/storage.hpp>
#include <weir/graph_node.hpp>
#include <weir/host_call.hpp>
#include <weir/op.hpp>

#include "backend.hpp"

namespace weir::detail {

/// What a node does, with everything that it needs: closure, fill value and host function are owned, arrays are kept
/// alive. Not changed once it is in a graph, for pending replays and other graphs may have it, too: an update makes a new
/// one. The exception is take_arguments().
class Payload {
 public:
  /// Copies what the command points to. A host function is the payload's once this returned.
  explicit Payload(const Command& command);
  ~Payload();
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;

  /// Before it is in a graph: keeps one more array alive.
  void keep(Storage& storage);
  /// The command was refused after all: a host function is its caller's again.
  void give_function_back() noexcept;

  /// Other arguments for the same kernel, in place: for executables whose replays have copies of them, where no other graph
  /// has the payload (NodePayload::sole).
  void take_arguments(const void* closure);

  const Op& op() const { return op_; }
  SourceLocation where() const { return where_; }
  const std::vector<Region>& uses() const { return uses_; }
  const std::vector<Storage*>& arrays() const { return arrays_; }
  /// For the message of a Weir call inside the kernel or host function.
  const RunningCommand& running() const { return running_; }
  const std::string& name() const { return name_; }

 private:
  Payload() = default;
  void own_closure(Launch& launch);

  Op op_ = Wait{};
  SourceLocation where_;
  std::string name_;
  std::vector<Region> uses_;
  std::vector<Storage*> arrays_;  ///< counted
  std::unique_ptr<std::byte[]> bytes_;
  std::unique_ptr<HostFunction> function_;
  RunningCommand running_;
};

/// A node's payload. Copies of a node, as in the graphs of one builder and in a parent, have the same one, and know it.
class NodePayload {
 public:
  NodePayload() = default;
  NodePayload(std::shared_ptr<const Payload> payload) : payload_(std::move(payload)) {}
  NodePayload(const NodePayload& other) : payload_(other.payload_), sole_(false) { other.sole_ = false; }
  NodePayload(NodePayload&&) noexcept = default;
  NodePayload& operator=(NodePayload other) noexcept {
    payload_.swap(other.payload_);
    sole_ = other.sole_;
    return *this;
  }
  ~NodePayload() = default;

  explicit operator bool() const { return payload_ != nullptr; }
  const Payload& operator*() const { return *payload_; }
  const Payload* operator->() const { return payload_.get(); }
  const Payload* get() const { return payload_.get(); }
  /// For executables, which outlive the node.
  const std::shared_ptr<const Payload>& shared() const { return payload_; }
  /// Whether no other node can have it.
  bool sole() const { return sole_; }

 private:
  std::shared_ptr<const Payload> payload_;
  mutable bool sole_ = true;  ///< once copied, it stays false: who drops a copy last is nobody's business
};

/// What decides which body of a conditional node runs.
struct Condition {
  enum class Kind : std::uint8_t { if_, if_else, switch_, while_ };
  Kind kind = Kind::if_;
  const std::int32_t* value =
      nullptr;  ///< device memory, read when the node is reached (and again after each body of while)
  std::uint32_t bodies = 1;
};

struct FormNode {
  NodeKind kind = NodeKind::empty;
  NodePayload payload;                 ///< null for kinds that do nothing themselves
  std::vector<std::uint32_t> depends;  ///< nodes of the same parent and branch
  std::int32_t parent = -1;            ///< a child graph or conditional node
  std::uint32_t branch = 0;            ///< which body of a conditional parent
  Condition condition;
  int device = 0;  ///< index among the backend's devices
  int priority = 0;
  StreamId stream = 0;
  std::string stream_name;
  SourceLocation where;
  bool enabled = true;
  std::shared_ptr<const void> beyond;  ///< of a child graph: what its executable held beyond its form
};

/// Graphs and bodies inside each other, at most: what goes through a form goes down by calling itself.
inline constexpr std::uint32_t most_nested = 200;

/// A graph: nodes, dependencies never form a cycle.
struct GraphForm {
  std::vector<FormNode> nodes;
};

/// A queue's part in captures by its backend's driver, so that what foreign libraries put into the native stream is captured,
/// too; the core records every capture itself. It is handed, of queues that are in the capture: every command but those in
/// bodies of conditional nodes (host functions stay the node's), and what it became in the form; records and waits of events
/// that fork and join; nodes with nodes inside, when these are complete. Under the core's lock of captures.
class DriverCapture {
 public:
  virtual void begin_capture(SourceLocation where) = 0;
  /// This queue is in the capture of `origin` from here on: a wait for one of its events follows.
  virtual void join_capture(Queue& origin, SourceLocation where) = 0;
  /// This queue's next in the capture depends on what `other`'s next would: it was not in the driver's part until now.
  virtual void capture_behind(Queue& other) = 0;
  /// The command before was this node of the form.
  virtual void captured(const GraphForm& form, std::size_t node) = 0;
  /// A child graph or conditional node, the next in this queue.
  virtual void capture_inside(const GraphForm& form, std::size_t node) = 0;
  /// A rank's part of a collective among devices of this backend, the next in this queue: what follows comes behind all of it,
  /// though other ranks have yet to call. `node` will be the form's, `index` the rank's place among those that take part.
  virtual void capture_part(std::size_t node, std::size_t index, SourceLocation where) = 0;
  /// All ranks have called, and the node is complete.
  virtual void capture_collective(const GraphForm& form, std::size_t node) = 0;
  /// Ends the capture that began here: what instantiate() wants, or null if it is discarded. Whatever it throws, the
  /// capture has ended.
  virtual void* end_capture(bool discard, SourceLocation where) = 0;

 protected:
  ~DriverCapture() = default;
};

/// A backend's instance of a form. The core owns it; close() when the user's graph is gone: pending replays finish first.
/// A node of a form, and what is to take its place.
struct NodeChange {
  std::size_t node;
  FormNode other;
};

/// Exchanges each change with its node of the form and calls update(node), which throws what is refused, before anything has
/// changed. Then all are exchanged back.
template <class F>
void exchange_all(GraphForm& form, std::vector<NodeChange>& changes, F&& update) {
  std::size_t done = 0;
  try {
    for (; done < changes.size(); ++done) {
      std::swap(form.nodes[changes[done].node], changes[done].other);
      update(changes[done].node);
    }
  } catch (...) {
    std::swap(form.nodes[changes[done].node], changes[done].other);
    while (done-- > 0) {
      std::swap(form.nodes[changes[done].node], changes[done].other);
      try {
        update(changes[done].node);
      } catch (...) {
        // What a node did before, its device can do.
      }
    }
    throw;
  }
}

class GraphExecutable {
 public:
  /// `copies_arguments`: update_arguments() is for it.
  explicit GraphExecutable(bool copies_arguments = false) : copies_arguments_(copies_arguments) {}
  virtual ~GraphExecutable() = default;
  bool copies_arguments() const { return copies_arguments_; }
  /// The payload or the enabled flag of a node changed; replays that are launched from here on use it.
  /// Throws what the driver refuses, before anything has changed; the core then puts the form back.
  virtual void update(const GraphForm& form, std::size_t node) = 0;
  /// exchange_all() with update(): each replay has all of the changes, or none. Default: nobody launches meanwhile.
  virtual void update_all(GraphForm& form, std::vector<NodeChange>& changes) {
    exchange_all(form, changes, [&](std::size_t node) { update(form, node); });
  }
  virtual void close() noexcept = 0;
  /// A shorter way for what is updated most: the arguments of a launch whose kernel, extent and arrays stay, with a payload
  /// that is the node's alone. If it can, it calls payload.take_arguments(), later replays use them, and it returns true; else nothing has changed.
  virtual bool update_arguments(std::size_t /*node*/, Payload& /*payload*/, const void* /*closure*/) { return false; }
  /// Whether replays do what the form does not know of, as foreign work that the driver captured.
  virtual bool does_more() { return false; }
  /// What replays do of which the form does not know, as foreign work that the driver captured: for a copy as a child graph.
  virtual std::shared_ptr<const void> beyond_form() { return nullptr; }
  /// For a graph with the same nodes: what Backend::instantiate() wants as the driver's graph; null where the form says all.
  virtual void* driver_copy(SourceLocation /*where*/) { return nullptr; }

 private:
  const bool copies_arguments_;
};

/// What a GraphLaunch op points to.
struct GraphState {
  std::uint64_t id = 0;
  Backend* backend = nullptr;
  int device = 0;
  GraphForm form;
  GraphExecutable* executable = nullptr;
  std::string name;
};

}  // namespace weir::detail
