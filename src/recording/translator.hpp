// What observers are told, in the words of a recording.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include <weir/observer.hpp>
#include <weir/recording.hpp>

#include "recording/recorder_graphs.hpp"
#include "recording/recorder_names.hpp"
#include "recording/recorder_objects.hpp"
#include "recording/repeats.hpp"
#include "recording/sink.hpp"

namespace weir::recorded {

/// Each callback becomes commands of the sink. Thread rule: callbacks run within keep() or keep_late(), which lock.
class Translator : public Observer {
 public:
  void submitted(const weir::Command& command) override;
  void waited(const HostWait& wait) override;
  void asked(const HostWait& question) override;
  void accessed(const HostAccess& access) override;
  void handed(const HandOffCall& call) override;
  void worked(const HostWork& work) override;
  void host_gone(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) override;
  void pinned(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) override;
  void unpinned(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread) override;
  void named(BufferId id, std::string_view name) override;
  void opened(const StreamInfo& stream) override;
  void closed(StreamId id) override;
  void graph_made(const GraphInfo& graph) override;
  void graph_changed(std::uint64_t graph, std::uint32_t node, const GraphNodeInfo& info) override;
  void graph_gone(std::uint64_t graph) override;

 protected:
  using Work = std::function<void()>;

  struct Extras {
    bool costs = false;       ///< of simulated devices, as they were said
    bool host_times = false;  ///< what a host thread did between its calls becomes work
    /// Nothing is kept of what has ended, and the fill of a new array has the name of the call that makes it.
    bool for_people = false;
  };
  explicit Translator(Sink& sink) : Translator(sink, Extras()) {}
  Translator(Sink& sink, Extras extras)
      : sink_(sink), extras_(extras), names_(sink), objects_(sink, names_, extras.for_people) {}
  void start(Watch watch, SourceLocation where);
  /// What threads did last, and may still have been for nothing, stands.
  void stop();

  /// Runs what adds commands, if they are kept; never throws.
  virtual void keep(const Work& add) noexcept = 0;
  /// Runs what changes a command that is there, or what later ones may need.
  virtual void keep_late(const Work& late) noexcept = 0;

  Objects& objects() { return objects_; }
  Names& names() { return names_; }
  std::size_t bytes() const {
    return objects_.bytes() + repeats_.bytes() + 64 * (open_guards_.size() + unmade_.size());
  }
  /// What submitted() adds for this launch is what it added for an earlier one; null if that is not known. Not on simulated
  /// devices, where each has the cost that was declared by then. Within keep().
  const Repeats::Launched* again(const weir::Command& command) {
    if (extras_.host_times || !pending_.empty()) return nullptr;
    return repeats_.again(command, objects_.memory());
  }
  /// A command as submitted() adds it; Op::empty for what does nothing. To be used once, or for what names memory by its uses alone.
  /// `runs`: it is done, and what it ends is forgotten.
  Command translated(const weir::Command& command, std::vector<Use>& uses, bool runs = true);
  Command translated(const HostAccess& access, std::vector<Use>& use);
  std::optional<Collective> collective(const weir::Command& command);
  /// What host_gone() tells: of each range the command, and which bytes of it end.
  struct End {
    Command command;
    MemoryMap::Part part;
  };
  std::vector<End> ends_of(const void* data, std::size_t bytes, SourceLocation where, std::uint32_t thread);

 private:
  using Time = std::chrono::steady_clock::time_point;
  /// What a host thread did since its last command, where that is known only by what it does next.
  struct Pending {
    HostWait question = {};       ///< its last command asks this
    std::size_t times = 0;        ///< and so often more
    std::vector<HostWork> works;  ///< that may be taken back
  };
  /// The thread does something else than to ask again: all that is pending stands.
  void settle(std::uint32_t thread);
  void settle(Pending& pending);
  /// Of the last works, so much.
  static void take_back(Pending& pending, std::chrono::nanoseconds time);
  /// As Objects::stream(), and the command that makes it comes first.
  std::uint32_t stream(StreamId id);
  std::uint32_t make(StreamId id, SourceLocation where);
  Command begun(Op op, std::uint32_t thread, SourceLocation where);
  void add_work(std::chrono::duration<double, std::nano> time, std::uint32_t thread, SourceLocation where);
  /// `at`: else now.
  void arrive(std::uint32_t thread, std::optional<Time> at, SourceLocation where);
  void leave(std::uint32_t thread);
  void add(const weir::Command& command);
  void add_order(const weir::Command& command);
  /// Who calls, where, on which stream, and what it is called.
  Command called(const weir::Command& command);
  void name_maker(const weir::Command& command, Command& made, const std::vector<Use>& uses);
  void add(const HostWait& wait, bool answer = true);
  void add(const HostAccess& access);
  void fill_in(const GraphNodeInfo& node, Node& made, std::uint32_t device);

  Sink& sink_;
  const Extras extras_;
  Names names_;
  Objects objects_;
  Graphs graphs_;
  std::unordered_set<std::uint64_t> open_guards_;
  std::unordered_map<StreamId, SourceLocation> unmade_;  ///< opened, and not used so far; where
  std::vector<Use> uses_of_command_;
  Repeats repeats_;
  Command last_alloc_;
  std::unordered_map<std::uint32_t, Time> left_;  ///< when a thread's last call ended
  std::map<std::uint32_t, Pending> pending_;      ///< by threads
  std::atomic<bool> attaching_{false};            ///< streams that other threads open meanwhile count as open before
};

}  // namespace weir::recorded
