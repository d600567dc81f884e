// The seam, collectives: what one is between the core, which matches the ranks' calls, and a backend, which runs it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <weir/error.hpp>
#include <weir/op.hpp>

namespace weir {
class Queue;
}
namespace weir::detail {
struct CollectiveRequest;
}

namespace weir::detail {

class CapturedCollective;
class CollectiveCall;
class CollectiveTransport;

/// One rank's part of a collective, in a queue. The queue has it from submit() of the op until the part was let go.
struct CollectivePart {
  CollectiveCall* call = nullptr;
  bool placed = false;                     ///< its place is that of a part before, with which it is one unit
  const CollectivePart* leader = nullptr;  ///< that part, until submit() has returned
  std::shared_ptr<const Error> failure;    ///< why the stream fails; written before the part is let go
  /// When the stream had come to it, on the steady clock; 0: not yet.
  std::atomic<std::int64_t> ready_nanoseconds{0};

  // The backend's, from submit() on: where the part is. Places rise in a queue; those of one unit are equal.
  Queue* queue = nullptr;
  std::uint64_t place = 0;
  // What waits for it.
  std::uint32_t reports_seen = 0;
  std::atomic<Queue*> parked{nullptr};
  std::shared_ptr<void> own;  ///< what a backend keeps of it beyond that
};

/// What one rank says.
struct CollectiveShare {
  int rank;
  const CollectiveRequest& request;
  std::span<const std::size_t> send_counts;
  std::span<const std::size_t> receive_counts;
  SourceLocation where;
};

class RankMover;
struct RankMove;

/// What a rank calls whose other ranks are elsewhere, and whose kernel is put into the stream at once: the others' come to it there.
struct RankLaunch {
  RankMover* mover;
  std::uint32_t key;  ///< kernels of ranks that call something else do not come to each other
  RankMove* move;     ///< over when the kernel is; the call's
};

/// One collective, of the ranks of this process that take part. Counted: by the core while it is pending, by each queue that has a part, and by the
/// transport while it has something to do with it.
class CollectiveCall {
 public:
  CollectiveCall() = default;
  CollectiveCall(const CollectiveCall&) = delete;
  CollectiveCall& operator=(const CollectiveCall&) = delete;

  void retain() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

  /// The communicator's.
  virtual CollectiveTransport& transport() const = 0;
  /// One for each rank that takes part.
  virtual std::span<CollectivePart> parts() noexcept = 0;
  /// The stream of parts()[index] had failed before it came to the collective: lets all parts go.
  virtual void fail_part(std::size_t index, std::shared_ptr<const Error> failure) noexcept = 0;
  /// It cannot be done: the communicator fails. Without any lock of the transport's.
  virtual void fail_all(Errc code, const std::string& why) noexcept = 0;
  /// What the rank of parts()[index] said, while it is pending.
  virtual CollectiveShare share(std::size_t index) const = 0;
  /// Does elements [begin, end) of what is to be done; several threads may, for different ones.
  virtual void run(std::size_t begin, std::size_t end) noexcept = 0;
  /// Of a call whose other ranks are elsewhere, is_told(): a part's stream has come to it, and had failed by `failure` unless
  /// that is null. By whoever runs the queue; the first time counts.
  virtual void arrived(CollectivePart&, std::shared_ptr<const Error> /*failure*/) noexcept {}
  /// The same: a host thread waits for its part, and may do some of what there is to do.
  virtual void help() noexcept {}
  /// The same: a mover, or its kernel, is through with it. Does not wait.
  virtual void look_again() noexcept {}
  /// The same: null where the stream waits until the call is over.
  virtual const RankLaunch* launch() const noexcept { return nullptr; }
  bool is_told() const { return is_told_; }
  std::size_t extent() const { return extent_; }
  /// How many elements are worth a thread's while.
  std::size_t grain() const { return grain_; }

  /// Whether it may run, which nothing can prevent then. False: it failed.
  bool begin() noexcept {
    int open = is_open;
    return state_.compare_exchange_strong(open, is_running, std::memory_order_acq_rel);
  }
  /// The opposite: true once, for who fails it.
  bool stop() noexcept {
    int open = is_open;
    return state_.compare_exchange_strong(open, is_failed, std::memory_order_acq_rel);
  }
  void end() noexcept {
    int running = is_running;
    state_.compare_exchange_strong(running, is_over, std::memory_order_acq_rel);
  }
  bool open() const noexcept { return state_.load(std::memory_order_acquire) == is_open; }
  bool over() const noexcept { return state_.load(std::memory_order_acquire) >= is_failed; }

  // The backend's: chunks that were taken and done, and where who waits for a part may help.
  std::atomic<std::size_t> next_chunk{0};
  std::atomic<std::size_t> done_chunks{0};
  std::atomic<Queue*> lane{nullptr};
  std::atomic<std::uint64_t> lane_number{0};

 protected:
  virtual ~CollectiveCall() = default;
  std::size_t extent_ = 0;
  std::size_t grain_ = 1;
  bool is_told_ = false;

 private:
  enum : int { is_open, is_running, is_failed, is_over };
  std::atomic<int> owners_{1};
  std::atomic<int> state_{is_open};
};

/// A collective in a graph, of a transport that does not fold by elements: what its ranks said. Nodes keep it, and it keeps the
/// communicator.
class CapturedCollective {
 public:
  virtual ~CapturedCollective() = default;
  virtual CollectiveTransport& transport() const = 0;
  /// The ranks that take part.
  virtual std::size_t size() const = 0;
  virtual CollectiveShare share(std::size_t index) const = 0;
};

/// What their nodes launch; the closure is a std::shared_ptr<const CapturedCollective>.
extern const Kernel captured_collective_kernel;
/// Null: it launches something else.
inline const CapturedCollective* captured_collective_of(const Launch& launch) {
  if (launch.kernel != &captured_collective_kernel) return nullptr;
  return static_cast<const std::shared_ptr<const CapturedCollective>*>(launch.closure)->get();
}

/// What a transport needs of the core, and what it can do.
struct TransportTraits {
  bool by_elements = true;     ///< collectives are done by CollectiveCall::run()
  bool captured = true;        ///< captured ones become nodes; by the host's kernels where they are by elements
  bool halves = false;         ///< half and bfloat16 are reduced, too
  bool reaches_memory = true;  ///< the host may read and write the ranks' arrays where they are
};

/// Runs the collectives of one communicator. Thread rule: run() by one thread at a time, let_go() by any.
class CollectiveTransport {
 public:
  virtual ~CollectiveTransport() = default;
  virtual TransportTraits traits() const { return {}; }
  /// Makes what the first collective needs, which takes long, where somebody waits for it. Default: there is nothing.
  virtual void start(SourceLocation) {}
  /// Throws what keeps this call out of captures. Default: nothing does.
  virtual void check_captured(const CollectiveRequest&, const std::string& /*object*/, SourceLocation) const {}
  /// Of one that has been open for a while: notes when its streams came to it, where they do not do so themselves. By one
  /// thread, which must not wait. Default: they do.
  virtual void attend(CollectiveCall&) noexcept {}
  /// The communicator has failed, and its parts were let go. Must not wait.
  virtual void abandon() noexcept {}
  /// As Communicator::transport() has it.
  virtual std::string_view name() const = 0;
  /// This thread makes calls that are one unit, up to give_out(): what it gives to run() meanwhile may be done together.
  virtual void gather() noexcept {}
  virtual void give_out() noexcept {}
  /// Every part is in its queue: once each queue has come to it, does the work and lets the parts go. Collectives of one
  /// `lane` run in the order of these calls. If a part's queue failed before, nothing is done.
  virtual void run(CollectiveCall& call, std::size_t lane) = 0;
  /// The part's queue goes on, with its failure if it has one. The first time counts.
  virtual void let_go(CollectivePart& part) noexcept = 0;
};

/// What a mover was asked to do. It writes the state once.
struct RankMove {
  enum class State : std::uint8_t { under_way, done, failed };
  std::atomic<State> state{State::under_way};
  std::string why;  ///< of `failed`; written before

  bool over() const noexcept { return state.load(std::memory_order_acquire) != State::under_way; }
  void fail(std::string what) {
    why = std::move(what);
    state.store(State::failed, std::memory_order_release);
  }
};

/// Moves the data of collectives among devices of several processes past the host: one rank's side of a communicator.
/// Nothing of it waits. Thread rule: one thread at a time, but for abandon(), which any thread calls.
class RankMover {
 public:
  virtual ~RankMover() = default;
  /// As Communicator::transport() has it.
  virtual std::string_view name() const = 0;
  /// What this process has of communicators before, for the first rank: at most 1,000 bytes.
  virtual std::string offer(int rank, int size) = 0;
  /// By the first rank: what all open it with, by what all offer. Throws weir::Error.
  virtual std::string make_key(const std::vector<std::string>& offers) = 0;
  /// Every rank does: `opened` is over when all have.
  virtual void open(const std::string& key, int rank, int size, std::shared_ptr<RankMove> opened) noexcept = 0;
  /// Whether it is for what is called so. Ranks whose calls fit together get one answer.
  virtual bool moves(const CollectiveRequest& request) const = 0;
  /// Whether it has kernels for what is called so, which wait for each other. The same answer for all ranks. Default: no.
  virtual bool launches(const CollectiveRequest&) const { return false; }
  /// All ranks' streams have come to the call, and their calls fit together. It keeps the call until it is over.
  virtual void move(CollectiveCall& call, std::shared_ptr<RankMove> move) noexcept = 0;
  /// The communicator has failed: what is under way ends as soon as it can, and nothing begins any more.
  virtual void abandon() noexcept = 0;
};

}  // namespace weir::detail
