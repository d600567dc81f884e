// The observer that keeps a running program: each callback becomes a command of the recording.
#include <weir/recorder.hpp>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <weir/graph_node.hpp>
#include <weir/kernel.hpp>
#include <weir/observer.hpp>

#include "recording/recorder_graphs.hpp"
#include "recording/recorder_names.hpp"
#include "recording/recorder_objects.hpp"

namespace weir {

namespace {

using recorded::none;
using Do = recorded::Op;  // weir::Op is what a stream is given
using recorded::Target;

constexpr Watch watch_without_times = Watch::commands | Watch::memory | Watch::host | Watch::graphs;

}  // namespace

class Recorder::State final : public Observer {
 public:
  explicit State(const RecorderOptions& options)
      : recording_(options.limit), names_(recording_), objects_(recording_, names_), times_(options.times) {}

  void begin(SourceLocation where) {
    attaching_ = true;
    attach(*this, times_ ? watch_without_times | Watch::times : watch_without_times, where);
    attaching_ = false;
    attached_ = true;
  }
  void end() {
    if (std::exchange(attached_, false)) detach(*this);
  }
  Recording take() {
    end();
    const std::lock_guard lock(mutex_);
    objects_.finish([this](const auto& place) { recording_.resolve(place); });
    if (dropped_ > 0) {
      recording_.about =
          names_.text(std::to_string(dropped_) + " commands more were not kept: the memory limit was reached");
    }
    return std::move(recording_);
  }
  std::size_t dropped() const {
    const std::lock_guard lock(mutex_);
    return dropped_;
  }

  void submitted(const Command& command) override {
    keep([&] { add(command); });
  }
  void ran(CommandId id, StreamId, Span span) override {
    keep_late([&] {
      const auto found = running_.find(id);
      if (found == running_.end()) return;
      const std::size_t place = found->second;
      running_.erase(found);
      if (span.end <= span.begin) return;  // skipped behind a failure
      recorded::Cost cost;
      cost.ns = std::chrono::duration<double, std::nano>(span.end - span.begin).count();
      recording_.set_cost(place, cost);
    });
  }
  void waited(const HostWait& wait) override {
    if (wait.source == HostWait::Source::pageable_copy || wait.kind == HostWait::Kind::command)
      return;  // as the copy says
    keep([&] { add(wait); });
  }
  void accessed(const HostAccess& access) override {
    keep([&] { add(access); });
  }
  void handed(const HandOffCall& call) override {
    keep([&] {
      const recorded::Name name = names_.text("handoff" + std::to_string(call.hand_off));
      if (call.command != 0) {
        if (const auto at = running_.find(call.command); at != running_.end()) recording_.add_give(at->second, name);
        return;
      }
      recorded::Command made = begun(call.gives ? Do::give : Do::take, call.thread, call.where);
      made.target_kind = Target::hand_off;
      made.target = name;
      recording_.add(made);
    });
  }
  void host_gone(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) override {
    keep([&] {
      for (const std::uint32_t range : objects_.host_gone(data, bytes)) {
        recorded::Command made = begun(Do::free, thread, where);
        made.target_kind = Target::buffer;
        made.target = range;
        recording_.add(made);
      }
    });
  }
  void named(BufferId id, std::string_view name) override {
    keep_late([&] { objects_.named(id, name); });
  }

  void opened(const StreamInfo& stream) override {
    keep_late([&] { objects_.opened(stream); });
    if (attaching_) return;
    keep([&] {
      recorded::Command made = begun(Do::make, 0, stream.where);
      made.target_kind = Target::stream;
      made.target = objects_.stream(stream.id, true);
      recording_.add(made);
    });
  }
  void closed(StreamId id) override {
    keep([&] {
      const std::uint32_t place = objects_.closed(id);
      if (place == none) return;
      recorded::Command made = begun(Do::drop, 0, {});
      made.target_kind = Target::stream;
      made.target = place;
      recording_.add(made);
    });
  }

  void graph_made(const GraphInfo& graph) override {
    keep([&] {
      if (graphs_.knows(graph.id)) return;
      graphs_.build(recording_, names_, graph, objects_.device(graph.device),
                    [this](const GraphNodeInfo& node, recorded::Node& made, std::uint32_t device) {
                      fill_in(node, made, device);
                    });
    });
  }
  void graph_changed(std::uint64_t graph, std::uint32_t node, const GraphNodeInfo& info) override {
    keep([&] {
      recorded::Node now;
      fill_in(info, now, graphs_.device(graph));
      graphs_.change(recording_, graph, node, info.enabled, now);
    });
  }
  void graph_gone(std::uint64_t graph) override {
    keep([&] {
      if (!graphs_.knows(graph)) return;
      recorded::Command made = begun(Do::drop, 0, {});
      made.target_kind = Target::graph;
      made.target = graphs_.forget(graph);
      recording_.add(made);
    });
  }

 private:
  /// Runs `add` if all fits; from the first command that does not on, nothing more is kept.
  template <class Add>
  void keep(const Add& add) noexcept {
    const std::lock_guard lock(mutex_);
    if (dropped_ > 0) {
      ++dropped_;
      return;
    }
    try {
      if (recording_.bytes() + own_bytes() > recording_.limit()) throw std::bad_alloc();
      add();
    } catch (...) {  // nothing of it is in the list: commands are added last
      dropped_ = 1;
    }
  }
  /// What changes a command that is there, or what later ones may need.
  template <class Late>
  void keep_late(const Late& late) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      late();
    } catch (...) {
    }
  }
  std::size_t own_bytes() const { return objects_.bytes() + 64 * (running_.size() + open_guards_.size()); }

  recorded::Command begun(Do op, std::uint32_t thread, SourceLocation where) {
    recorded::Command made;
    made.op = op;
    made.thread = objects_.thread(thread);
    if (where.line() != 0) {
      made.file = names_.file(where.file_name());
      made.line = where.line();
    }
    return made;
  }
  void add(const Command& command) {
    if (const auto* wait = std::get_if<Wait>(&command.op); wait != nullptr && wait->event == nullptr) {
      return add_order(command);
    }
    recorded::Command made = begun(Do::launch, command.thread, command.where);
    made.stream = objects_.stream(command.stream);
    std::vector<recorded::Use>& uses = uses_of_command_;
    uses.clear();
    if (const auto* launch = std::get_if<Launch>(&command.op)) {
      made.name = names_.text(launch->name != nullptr ? std::string_view(launch->name) : launch->kernel->name);
    }
    if (const auto* launch = std::get_if<GraphLaunch>(&command.op)) {
      made.op = Do::launch_graph;
      made.target_kind = Target::graph;
      made.target = graphs_.name(launch->id);
    } else {
      objects_.describe({command.op, command.uses, command.stream, objects_.device_of(command.stream), true}, made,
                        uses);
    }
    const bool unknown = made.target_kind != Target::none && made.target == none;  // older than the recording
    if (unknown || made.op == Do::empty) return;
    const auto place = static_cast<std::uint32_t>(recording_.add(made, {.uses = uses}));
    const bool lasts = made.target_kind == Target::none;
    if (lasts && (times_ || made.op == Do::host_function)) running_.emplace(command.id, place);
  }
  /// The stream comes behind others without an event.
  void add_order(const Command& command) {
    for (const StreamId before : command.behind) {
      recorded::Command made = begun(Do::wait, command.thread, command.where);
      made.stream = objects_.stream(command.stream);
      made.target_kind = Target::stream;
      made.target = objects_.stream(before);
      if (made.target != none) recording_.add(made);
    }
  }
  void add(const HostWait& wait) {
    const bool query = wait.source == HostWait::Source::query;
    recorded::Command made = begun(query ? Do::query : Do::synchronize, wait.thread, wait.where);
    made.flag = query;
    switch (wait.kind) {
      case HostWait::Kind::all: made.target_kind = Target::all; break;
      case HostWait::Kind::device:
        made.target_kind = Target::device;
        made.target = objects_.device(wait);
        break;
      case HostWait::Kind::stream:
        made.target_kind = Target::stream;
        made.target = objects_.stream(wait.stream);
        break;
      default:
        made.target_kind = Target::event;
        made.target = objects_.event(wait.event_id, wait.stream);
        break;
    }
    if (made.target_kind != Target::all && made.target == none) return;
    recording_.add(made);
  }
  void add(const HostAccess& access) {
    recorded::Command made = begun(access.begins ? Do::host_open : Do::host_close, access.thread, access.where);
    made.target_kind = Target::scope;
    made.target = names_.text("guard" + std::to_string(access.guard));
    if (access.begins) {
      std::vector<recorded::Use> use;
      objects_.add_side({&access.region, 1}, MemoryKind::pageable, 0, use);
      open_guards_.insert(access.guard);
      recording_.add(made, {.uses = use});
    } else if (open_guards_.erase(access.guard) != 0) {
      recording_.add(made);
    }
  }

  /// What a node does, of what the observer is told.
  void fill_in(const GraphNodeInfo& node, recorded::Node& made, std::uint32_t device) {
    if (node.where.line() != 0) {
      made.file = names_.file(node.where.file_name());
      made.line = node.where.line();
    }
    if (node.op != nullptr) {
      objects_.describe({*node.op, node.uses, node.stream, device, false}, made, made.uses);
    } else if (node.kind == NodeKind::conditional) {
      objects_.add_side(node.uses, MemoryKind::device, device, made.uses);
    }
  }

  mutable std::mutex mutex_;
  Recording recording_;
  recorded::Names names_;
  recorded::Objects objects_;
  recorded::Graphs graphs_;
  /// Commands whose cost is not known yet, and host functions, which may still give.
  std::unordered_map<CommandId, std::uint32_t> running_;
  std::unordered_set<std::uint64_t> open_guards_;
  std::vector<recorded::Use> uses_of_command_;
  std::size_t dropped_ = 0;
  bool times_;
  std::atomic<bool> attaching_{false};  ///< streams that other threads open meanwhile count as open before
  bool attached_ = false;
};

Recorder::Recorder(const RecorderOptions& options, SourceLocation where) : state_(std::make_unique<State>(options)) {
  state_->begin(where);
}
Recorder::~Recorder() { state_->end(); }
Recording Recorder::finish() { return state_->take(); }
std::size_t Recorder::dropped() const { return state_->dropped(); }

}  // namespace weir
