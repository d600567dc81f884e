// What a communicator of several processes is made of.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include <weir/collectives.hpp>

#include "ranks/control.hpp"
#include "ranks/link.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

/// A lock that may be asked for.
class WEIR_LOCK LinkMutex {
 public:
  void lock() WEIR_TAKES() {
    while (taken_.test_and_set(std::memory_order_acquire)) taken_.wait(true, std::memory_order_relaxed);
  }
  void unlock() WEIR_GIVES() {
    taken_.clear(std::memory_order_release);
    taken_.notify_one();
  }
  bool try_lock() WEIR_TOLD_CLANG(try_acquire_capability(true)) {
    return !taken_.test_and_set(std::memory_order_acquire);
  }

 private:
  std::atomic_flag taken_;
};

/// A link with the lock of its one thread. A communicator's splits share it, with tags of their own.
struct SharedLink {
  explicit SharedLink(std::unique_ptr<RankLink> its_link) : link(std::move(its_link)) {}
  LinkMutex mutex;
  const std::unique_ptr<RankLink> link;
};

/// The communicator of all ranks that `control` joins, of which this process has one. Starts the control.
Communicator make_ranked(Device device, const CommunicatorOptions& options, int rank, int size,
                         std::shared_ptr<SharedLink> link, std::shared_ptr<Control> control, SourceLocation where);

/// Whether a communicator of several processes has failed in this one.
bool ranks_failed();
/// The process ends: its ranks take leave of the others, who fail at once if they wait for a call of it that was not made.
void leave_ranks();
/// Waits until what has begun among processes is over, for two seconds at most.
void settle_ranks();
/// How its backend moves what ranks exchange, as Backend::rank_mover() has it.
std::string mover_of(Device device);
/// Who reaches its memory, `link` by which messages go.
RankReach reach_of(Device device, const RankLink* link);
/// Whether the checker is asked for: ranks compare their calls before data moves.
bool wants_checks();

}  // namespace weir::detail
