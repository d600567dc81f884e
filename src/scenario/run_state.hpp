// What a running scenario has: devices, streams, events, memory and graphs, by their places in the recording.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <weir/copy.hpp>
#include <weir/graph.hpp>
#include <weir/host_access.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "scenario/kernels.hpp"

namespace weir::scenario {

/// Counts what was given under each name; who takes waits until all has come that was promised before. Tools are told of a
/// HandOff for each name. Thread rule: any.
class HandOffs {
 public:
  void promise(recorded::Name name);
  void give(recorded::Name name, SourceLocation where);
  /// Nobody gives it any more, and who takes must not wait for ever.
  void give_up(recorded::Name name);
  void take(recorded::Name name, SourceLocation where);

 private:
  struct Count {
    std::size_t promised = 0;
    std::size_t given = 0;
    HandOff told;
  };
  Count& count_of(recorded::Name name);
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<recorded::Name, Count> counts_;
};

/// The host touches memory as long as this lives. As a HostGuard, but it keeps no array alive: scenarios free on purpose what is
/// being read.
class OpenScope {
 public:
  OpenScope(const Region& region, SourceLocation where) : region_(region), where_(where) {
    if (detail::host_access_is_watched()) guard_ = detail::begin_host_access(region_, where_);
  }
  OpenScope(OpenScope&& other) noexcept
      : region_(other.region_), where_(other.where_), guard_(std::exchange(other.guard_, 0)) {}
  OpenScope& operator=(OpenScope&&) = delete;
  ~OpenScope() {
    if (guard_ != 0) detail::end_host_access(guard_, region_, where_);
  }

 private:
  Region region_;
  SourceLocation where_;
  std::uint64_t guard_ = 0;
};

struct RunStream {
  std::optional<Stream> own;
  StreamRef ref;
};
struct RunEvent {
  std::optional<Event> plain;
  std::optional<TimedEvent> timed;
  EventRef ref;
};
struct RunBuffer {
  Array<Byte> array;
  Byte* data = nullptr;
  bool ended = false;  ///< host memory that is gone
};
struct RunNode {
  std::string path;
  Node node;
  recorded::Op op;
};
struct RunGraph {
  Graph graph;
  std::vector<RunNode> nodes;
  std::unordered_map<std::string_view, std::size_t> places;  ///< of nodes, by their paths; empty until one is asked for
};
/// The nodes below each child graph's node, by its index, as they follow each other.
using BelowChildren = std::unordered_map<std::uint32_t, std::vector<Node>>;

using CopyEnd = std::variant<Slice<Byte>, AnyView<Byte>, std::span<Byte>>;

class RunState {
 public:
  /// Checks what can be checked, and finds the devices.
  RunState(const Recording& recording, const RunOptions& options);
  /// Waits for what runs, and gives everything back.
  ~RunState();
  RunState(const RunState&) = delete;
  RunState& operator=(const RunState&) = delete;

  /// Makes what is there at the start.
  void start();
  /// The default streams of a host thread, which it must make itself.
  void thread_begins(std::uint32_t thread);
  /// Makes the calls of one command. Throws what the library throws.
  void call(std::size_t place);
  /// Waits for all devices; what had failed.
  std::vector<std::string> finish();
  /// The calling thread's time, as the first device has it: virtual beside simulated ones.
  std::chrono::steady_clock::time_point now() const {
    return devices_.empty() ? std::chrono::steady_clock::now() : host_now(devices_.front());
  }

 private:
  const recorded::Buffer& declared(std::uint32_t buffer) const { return recording_.buffers()[buffer]; }
  void make_stream(std::uint32_t stream, SourceLocation where);
  void make_event(std::uint32_t event, SourceLocation where);
  void make_buffer(std::uint32_t buffer);
  StreamRef own_stream(std::uint32_t device);
  PoolRef pool(std::uint32_t device);
  Device device(std::uint32_t place) const { return devices_[place]; }
  StreamRef stream(std::uint32_t place) const { return streams_[place].ref; }
  /// What the messages of a command name: text that stays.
  SourceLocation where(std::size_t place) const;
  SourceLocation where(const recorded::Node& node, SourceLocation command) const;
  const char* text_or_null(recorded::Name name) const;

  Argument<Byte> argument(const recorded::Use& use, SourceLocation where);
  std::vector<recorded::Use> uses_of(const recorded::Command& command) const;
  std::vector<Argument<Byte>> arguments(const recorded::Command& command, SourceLocation where);
  std::vector<Argument<Byte>> arguments(std::span<const recorded::Use> uses, SourceLocation where);
  CopyEnd copy_end(const recorded::Use& use, const recorded::Use& other, SourceLocation where);
  double duration(const std::optional<recorded::Cost>& cost) const;
  bool simulated() const { return devices_.front().backend() == "sim"; }
  /// How long a kernel of that name computes. On simulated devices no time at all: their clock is told what it costs.
  double computing(const char* name, const std::optional<recorded::Cost>& cost, std::span<const recorded::Use> uses);
  /// The same of what has no name, by its line.
  double computing(SourceLocation where, const std::optional<recorded::Cost>& cost,
                   std::span<const recorded::Use> uses);
  /// The host computes; on simulated devices by their clock.
  void work(double ns) const;

  void host_function(const recorded::Command& command, SourceLocation where);
  void allocate(std::uint32_t buffer, StreamRef stream, SourceLocation where);
  void make_zeros(std::uint32_t buffer);
  void free(const recorded::Command& command, SourceLocation where);
  void synchronize(const recorded::Command& command, SourceLocation where);
  void query(const recorded::Command& command, SourceLocation where);
  void host_access(const recorded::Command& command, SourceLocation where);
  OpenScope open_scope(const recorded::Use& use, SourceLocation where);
  void drop(const recorded::Command& command);

  // ---- run_graphs.cpp
  /// Refuses a file whose graphs have more nodes than a run has memory for: children are copied, so that few lines make many.
  void check_nodes() const;
  void note_captured(std::size_t place, SourceLocation where);
  void end_capture(const recorded::Command& command, SourceLocation where);
  void build(const recorded::Command& command, SourceLocation where);
  void build_nodes(GraphBuilder& builder, std::span<const recorded::Node> nodes, const std::string& path,
                   SourceLocation where, std::vector<RunNode>& made);
  Node build_node(GraphBuilder& builder, const recorded::Node& node, const std::string& path, SourceLocation where,
                  std::vector<RunNode>& made);
  Node build_control(GraphBuilder& builder, const recorded::Node& node, const std::string& path, SourceLocation where,
                     std::vector<RunNode>& made);
  void update(const recorded::Command& command, SourceLocation where);

  const Recording& recording_;
  const char* file_;
  bool finished_ = false;
  double longest_;
  bool costs_last_;
  std::vector<Device> devices_;
  std::vector<std::pair<Device, Device>> peers_;
  std::vector<std::optional<Stream>> own_streams_;
  std::vector<std::optional<Pool>> pools_;
  std::vector<RunStream> streams_;
  std::vector<RunEvent> events_;
  std::vector<RunBuffer> buffers_;
  std::vector<void*> user_memory_;
  std::vector<void*> pinned_;
  std::map<recorded::Name, RunGraph> graphs_;
  std::map<recorded::Name, OpenScope> scopes_;
  std::shared_ptr<HandOffs> hand_offs_ = std::make_shared<HandOffs>();
  std::mutex costs_;
  std::set<std::string, std::less<>> costed_;  ///< kernels that simulated devices know a cost of
  std::size_t captures_ = 0;                   ///< begun and not ended
  struct Captured {
    std::size_t command;
    SourceLocation where;
  };
  std::vector<Captured> captured_;
};

}  // namespace weir::scenario
