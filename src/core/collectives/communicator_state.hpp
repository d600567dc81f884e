// Communicators: who the ranks are, which of their calls wait for others, and what ends it all.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <weir/collectives.hpp>

#include "backend.hpp"
#include "collective_launches.hpp"
#include "core/collectives/one_or_more.hpp"
#include "core/collectives/work.hpp"
#include "core/runtime.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

class LaunchGate;
class LocalCall;
class RankedState;
class StagedOperands;
struct CapturedCall;
struct Pending;

/// What a call says, kept: by the rank that made it.
struct Offer {
  Offer(const CollectiveRequest& request, StreamRef on, SourceLocation line);

  CollectiveRequest request;
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> receive_counts;
  StreamRef stream;
  SourceLocation where;
  std::uint64_t unit = 0;  ///< of the group that it is called in; 0: none
};

/// As the user calls it: "weir::all_reduce"; and without the namespace.
const char* operation_of(CollectiveKind kind);
inline bool is_pair(CollectiveKind kind) { return kind == CollectiveKind::send || kind == CollectiveKind::receive; }
/// Who takes part in a call of `rank`: the sender and the receiver, or all.
std::vector<int> ranks_of(const CollectiveRequest& request, int rank, std::size_t size);
/// Where `rank` is among them.
std::size_t index_of(const CollectiveRequest& request, int rank);
/// Of a sender and a receiver: what they do is in order, and in none with what others do.
inline std::size_t lane_of_pair(std::span<const int> ends, std::size_t size) {
  return 1 + static_cast<std::size_t>(ends[0]) * size + static_cast<std::size_t>(ends[1]);
}
inline const char* name_of(CollectiveKind kind) { return operation_of(kind) + sizeof("weir::") - 1; }
/// What all ranks of a call have to agree on, and where it was called: all that texts are about.
struct Called {
  explicit Called(const Offer& offer);

  CollectiveKind kind;
  Reduction reduction;
  int peer;
  std::size_t count;
  std::string_view type;
  SourceLocation where;
};
std::string text_of(const Called& called);
inline std::string text_of(const Offer& offer) { return text_of(Called(offer)); }
/// Elements of the part that each rank has.
std::size_t count_of(const CollectiveRequest& request);

/// Counted, as the transport counts them.
class CallReference {
 public:
  CallReference() = default;
  explicit CallReference(LocalCall* call) : call_(call) {}
  CallReference(const CallReference& other) noexcept;
  CallReference(CallReference&& other) noexcept : call_(std::exchange(other.call_, nullptr)) {}
  CallReference& operator=(CallReference other) noexcept {
    std::swap(call_, other.call_);
    return *this;
  }
  ~CallReference();
  LocalCall* operator->() const { return call_; }
  LocalCall& operator*() const { return *call_; }

 private:
  LocalCall* call_ = nullptr;
};

struct CommunicatorState : std::enable_shared_from_this<CommunicatorState> {
  struct Rank {
    Device device;
    std::uint64_t calls = 0;          ///< collectives, not sends and receives
    std::optional<Called> last = {};  ///< what it called last
    bool left = false;                ///< its Communicator is gone
    bool failed = false;              ///< why the communicator failed
    std::size_t splits = 0;
  };
  struct Failure {
    Errc code;
    std::string text;
  };
  /// Of split(): the ranks that have called it, and what became of them.
  struct Split;
  using Calls = std::deque<CallReference>;

  const std::uint64_t id;
  const std::string name;
  const std::chrono::nanoseconds timeout;
  std::unique_ptr<CollectiveTransport> transport;
  bool gated = false;                   ///< launches of graphs with its collectives are calls of all ranks, by gates
  std::shared_ptr<RankedState> ranked;  ///< what there is of the others, where they are other processes; else null

  /// A rank's calls are made one after the other, and go into their streams without `mutex`: the driver may wait for room there (R3)
  /// until another rank has called, or has failed. Taken before `mutex`.
  const std::unique_ptr<Mutex[]> calling;
  Mutex mutex;
  std::vector<Rank> ranks WEIR_GUARDED_BY(mutex);
  Calls open WEIR_GUARDED_BY(mutex);  ///< collectives that some rank has yet to call; their numbers follow each other
  Calls complete WEIR_GUARDED_BY(mutex);  ///< all have called; the first ones that are over go at the next call
  std::map<std::size_t, Calls> pairs WEIR_GUARDED_BY(mutex);  ///< sends, or receives, without their other half, by pair
  std::vector<std::shared_ptr<CapturedCall>> captured WEIR_GUARDED_BY(mutex);
  /// Where the last launch of a graph with its collectives is, for the lanes whose next call has yet to come behind it.
  struct LastLaunch {
    std::uint64_t number = 0;  ///< 0: there was none
    Queue* queue = nullptr;
    std::uint64_t place = 0;
    std::uint32_t reports_seen = 0;
  };
  LastLaunch last_launch WEIR_GUARDED_BY(mutex);
  std::map<std::size_t, std::uint64_t> lanes_behind
      WEIR_GUARDED_BY(mutex);                     ///< the number of the last that each waits for
  bool launching WEIR_GUARDED_BY(mutex) = false;  ///< one is on its way into its stream: calls wait until it is there
  std::condition_variable_any launch_over;
  std::optional<Failure> failure WEIR_GUARDED_BY(mutex);
  std::shared_ptr<CommunicatorState> survivors WEIR_GUARDED_BY(mutex);
  std::vector<int> survivors_of WEIR_GUARDED_BY(mutex);  ///< the ranks here that became its ranks
  std::vector<std::shared_ptr<Split>> splits WEIR_GUARDED_BY(mutex);
  std::shared_ptr<Split> survivors_split WEIR_GUARDED_BY(mutex);  ///< without_failed() of ranks that are processes
  std::condition_variable_any split_changed;                      ///< one is decided, or the communicator has failed

  CommunicatorState(const std::vector<Device>& devices, const CommunicatorOptions& options, SourceLocation where);

  /// Of `size` processes, of which this one has a single rank.
  CommunicatorState(Device device, std::size_t size, const CommunicatorOptions& options, SourceLocation where);

  std::size_t size() const { return size_; }
  std::string describe(int rank) const;
  /// Makes the call of `rank`: into the stream, and, if it is the last, to the transport. Of a group: `made` keeps the part
  /// that is returned, `leader` is the group's first in this stream, or null, and `staged` is what stage() gave, before the first
  /// call of the group; the caller takes it out behind the last. Null in a capture.
  const CollectivePart* call(int rank, const Offer& offer, const CollectivePart* leader, CallReference* made,
                             StagedOperands* staged);
  /// Where the host does not reach the rank's arrays, and other ranks are other processes; else nothing.
  StagedOperands stage(int rank, const Offer& offer) const;
  /// The communicator fails if it cannot. Without any lock of it but the rank's `calling`.
  void take_out(StagedOperands& staged);
  void leave(int rank) noexcept;
  /// Of a graph with its collectives, a call of all ranks: from here to end_launch() no rank calls. Throws if it has failed, or
  /// some rank has yet to call what others have called.
  void begin_launch(SourceLocation where);
  /// What comes into the stream next comes behind all calls before; `order` as LocalCall has it.
  void hold_launch(StreamRef stream, std::uint64_t order, SourceLocation where);
  /// What the stream has by now comes before all calls behind it.
  void note_launch(StreamRef stream, SourceLocation where) noexcept;
  void end_launch() noexcept;
  /// Of a graph that calls as a rank whose other ranks are other processes: throws what those calls would.
  void check_replay_of(int rank, SourceLocation where);
  Device device_of(int rank);
  /// Why it fails, unless it has: who comes to it from here on has this failure.
  void note(Errc code, const std::string& what) WEIR_NEEDS(mutex);
  /// Fails all that is pending, and everything later.
  void fail(Errc code, const std::string& what) WEIR_NEEDS(mutex);
  /// The rank's Communicator is gone, and somebody waits for a call of it.
  void fail_by_who_left(int rank) WEIR_NEEDS(mutex);
  /// For who is told in time: fails it if a rank that is ready waited too long. Otherwise when to look again. Adds the calls that
  /// were open at the look before, too, and launches of graphs that wait.
  std::chrono::steady_clock::time_point look(std::chrono::steady_clock::time_point now, Pending& stuck);
  [[noreturn]] void refuse(int rank, const char* operation, SourceLocation where) WEIR_NEEDS(mutex);
  /// Each rank's last call.
  std::string table() const WEIR_NEEDS(mutex);

 private:
  CallReference find_call(int rank, const Offer& offer, bool& fresh) WEIR_NEEDS(mutex);
  /// Whether the rank `other` has made its part of what `rank` is about to call.
  bool has_called(int other, int rank, const CollectiveRequest& request) const WEIR_NEEDS(mutex);
  const CollectivePart* call_ranked(int rank, const Offer& offer, std::span<const Region> uses,
                                    const CollectivePart* leader, CallReference* made, StagedOperands* staged);
  /// What the checks of a call by this rank find; with the regions that it uses. False: it was captured.
  bool admit(int rank, const Offer& offer, bool grouped, Region regions[2], std::size_t& uses) WEIR_NEEDS(mutex);
  /// The rank's part of the call did not get into its stream.
  void take_back(const CallReference& call, std::size_t index, const CollectiveRequest& request, int rank)
      WEIR_NEEDS(mutex);
  Command command_of(int rank, const Offer& offer, std::uint64_t number, CollectivePart& part,
                     std::span<const Region> uses) const;
  void call_captured(int rank, const Offer& offer) WEIR_NEEDS(mutex);
  /// The same for a rank whose other ranks are other processes.
  void capture_rank(int rank, const Offer& offer, std::span<const Region> uses) WEIR_NEEDS(mutex);
  void check_match(int rank, const Offer& offer, const LocalCall& call) WEIR_NEEDS(mutex);
  void forget_what_is_over() WEIR_NEEDS(mutex);
  /// All have called: behind the last launch.
  void run_in_lane(LocalCall& call, std::size_t lane) WEIR_NEEDS(mutex);
  void check_replay(SourceLocation where) WEIR_NEEDS(mutex);
  void hold_lane(std::size_t lane, StreamRef stream, std::uint64_t order, SourceLocation where);
  std::vector<WaitingLaunch> waiting_launches() WEIR_NEEDS(mutex);
  /// Fails it if a launch waits too long for a call of it; otherwise when one may have.
  std::chrono::steady_clock::time_point look_at_launches(std::chrono::steady_clock::time_point now, Pending& stuck)
      WEIR_NEEDS(mutex);
  template <class F>
  void for_each_pending(F&& f) WEIR_NEEDS(mutex);

  const std::size_t size_;
};

/// One collective: the offers of its ranks here, of which a send and its receive are two.
class LocalCall : public CollectiveCall {
 public:
  LocalCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number, const std::vector<int>& ranks);
  /// Of one rank.
  LocalCall(std::shared_ptr<CommunicatorState> communicator, std::uint64_t number, int rank);

  CollectiveTransport& transport() const override { return *communicator_->transport; }
  std::span<CollectivePart> parts() noexcept override { return parts_.all(); }
  void fail_part(std::size_t index, std::shared_ptr<const Error> failure) noexcept override;
  void fail_all(Errc code, const std::string& why) noexcept override;
  CollectiveShare share(std::size_t index) const override;
  void run(std::size_t begin, std::size_t end) noexcept override { work_.run(begin, end); }

  std::uint64_t number() const { return number_; }
  /// Of a communicator that is `gated`: rises with the calls that became whole, and the launches, of all of them. 0: not whole.
  std::uint64_t order() const { return order_.load(std::memory_order_acquire); }
  void set_order(std::uint64_t order) { order_.store(order, std::memory_order_release); }
  virtual const LaunchGate* as_gate() const { return nullptr; }
  /// Where the rank's part is.
  std::size_t index_of(int rank) const;
  std::span<const int> ranks() const { return ranks_.all(); }
  std::optional<Offer>& offer(std::size_t index) { return offers_[index]; }
  const std::optional<Offer>& offer(std::size_t index) const { return offers_[index]; }
  /// All parts are in their streams.
  bool is_complete() const;
  /// Some rank has said what it calls, and its part is on its way into the stream: nobody looks at that part meanwhile.
  bool is_being_called() const;
  /// The part is in its stream. With the communicator's lock, and its failure: where the call has failed meanwhile, the part is let go.
  void set_there(std::size_t index, const std::optional<CommunicatorState::Failure>& failure) noexcept;
  /// Whether this is not the first time that it was found open.
  bool found_open_again() { return std::exchange(found_open_, true); }
  /// All ranks have called: what is to be done.
  void prepare();
  /// Tells observers that each stream comes behind the others, as the last call has it.
  void tell_order() const;
  /// Their queues go on.
  void let_parts_go() noexcept;
  /// Stops it, with an error for each part; false if it runs or is over. `own`: of one part, whose stream has one already.
  bool stop_with(Errc code, const std::string& text, std::size_t index,
                 const std::shared_ptr<const Error>& own) noexcept;

 protected:
  ~LocalCall() override = default;
  const std::shared_ptr<CommunicatorState> communicator_;
  /// What the part's stream fails with, where the call has failed so.
  virtual std::shared_ptr<const Error> error_of(std::size_t index, Errc code, const std::string& text) const;

 private:
  void let_go(std::size_t index, Errc code, const std::string& text) noexcept;

  const std::uint64_t number_;
  OneOrMore<int> ranks_;
  OneOrMore<CollectivePart> parts_;
  OneOrMore<std::optional<Offer>> offers_;
  OneOrMore<bool> there_;
  CollectiveWork work_;
  std::atomic<std::uint64_t> order_{0};
  bool found_open_ = false;
};

template <class F>
void CommunicatorState::for_each_pending(F&& f) {
  for (Calls* calls : {&complete, &open}) {
    for (CallReference& call : *calls) f(*call);
  }
  for (auto& [pair, calls] : pairs) {
    for (CallReference& call : calls) f(*call);
  }
}

/// A Communicator's.
struct Member {
  std::shared_ptr<CommunicatorState> state;
  int rank = 0;
  std::shared_ptr<CommunicatorState::Split> split;  ///< what decides on both; null once it has
  Mutex resolving;

  Member(std::shared_ptr<CommunicatorState> its_state, int its_rank) : state(std::move(its_state)), rank(its_rank) {}
  ~Member();
};

/// The lock of the communicator that is split has it.
struct CommunicatorState::Split {
  struct Choice {
    int color;
    int key;
    int rank;
  };
  bool of_survivors = false;                                                ///< its communicator has failed
  bool decided = false;                                                     ///< by rank 0's process; results may follow
  std::vector<std::optional<Choice>> choices;                               ///< where all ranks are here
  std::vector<std::pair<std::shared_ptr<CommunicatorState>, int>> results;  ///< by the rank before; empty: not decided
};

/// Why two ranks' offers are not of one collective; empty if they are.
std::string difference(int rank, const Offer& mine, int other, const Offer& theirs);
/// What is to be done once all have said what they give; of a send and its receive, in this order.
CollectiveWork work_of(std::span<const std::optional<Offer>> offers);
/// Checks what one rank says, and describes what it reads and writes. Returns how many regions.
std::size_t check_offer(const CommunicatorState& communicator, int rank, const Offer& offer, bool grouped,
                        Region regions[2]);
/// Which ranks have not come to it, and why: for the text of a timeout, and all of them count as failed.
std::string note_missing(CommunicatorState& communicator, LocalCall& late) WEIR_NEEDS(communicator.mutex);
/// "0.25"
std::string seconds_of(std::chrono::nanoseconds time);
/// Whether the call goes into this thread's open group.
bool add_to_group(const std::shared_ptr<CommunicatorState>& communicator, int rank, const Offer& offer);

/// From here on somebody looks at the communicator when it may have waited too long.
void watch(const std::shared_ptr<CommunicatorState>& communicator);
/// Something is pending there that began now.
void watch_from_now(const CommunicatorState& communicator);
/// How long what is pending is left alone before somebody asks whether it can ever run.
inline constexpr std::chrono::milliseconds patience_with_pending{25};

}  // namespace weir::detail
