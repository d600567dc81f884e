// The connections by which the processes of a job know of each other: who lives, who has called what, and who decides why a
// communicator failed. A star: one TCP connection from each rank to rank 0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <weir/error.hpp>

#include "ranks/sockets.hpp"

namespace weir::detail {

/// Why a rank asks what the others do.
enum class Inquiry : std::uint8_t { stuck, late, mismatch, died, stream_failed, aborted, left, last = left };

/// The number of the split that without_failed() is: ranks that failed have another color than 0.
inline constexpr std::uint64_t split_of_survivors = std::uint64_t{1} << 62;

/// Who reaches a rank's arrays: messages of the host's memory are all that there is, or may be in a device's, too.
enum class RankReach : std::uint8_t { host, none, link, last = link };

/// A process, to others: `machine` is the same for those that know each other by their numbers.
struct RankProcess {
  std::uint64_t machine = 0;  ///< 0: not known
  std::uint64_t number = 0;
};
RankProcess this_process();
/// Whether it is one of this machine's that may run: neither stopped nor over.
bool may_run(const RankProcess& process);

/// A communicator, to the control: it answers, and is told. Ranks are the job's. Called by the control's thread alone.
class RankListener {
 public:
  enum class CallState : std::uint8_t { not_called, not_ready, ready, over, last = over };
  struct Answer {
    std::uint64_t calls = 0;
    CallState state = CallState::not_called;
    std::uint64_t fingerprint = 0;  ///< of the call that was asked for; 0: not known
    std::string call;               ///< its text, or that of the send or receive that was asked for
    std::string last;               ///< the text of the last call
  };
  /// How often a rank has called send and receive with another one of its communicator.
  struct PairCounts {
    int rank = 0;
    std::uint64_t sends = 0;
    std::uint64_t receives = 0;
  };
  struct Choice {
    int color = 0;
    int key = 0;
    std::uint64_t context = 0;  ///< the number of the communicator that it becomes a rank of
  };

  virtual ~RankListener() = default;
  /// Of a collective by its number; of a send or receive, whose number is 0, by its fingerprint.
  virtual Answer answer(std::uint64_t call, std::uint64_t fingerprint) = 0;
  /// `what`: the reason and the table of ranks.
  virtual void verdict(Errc code, const std::vector<int>& failed, const std::string& what) = 0;
  virtual void left(int rank, std::uint64_t calls, const std::vector<PairCounts>& pairs) = 0;
  /// Nobody decides any more: rank 0's process died.
  virtual void dead(int rank, const std::string& why) = 0;
  /// Of each rank of the communicator.
  virtual void split(std::uint64_t number, const std::vector<Choice>& choices) = 0;
};

class Control {
 public:
  struct Settings {
    int rank = 0;
    int size = 1;
    std::string secret;
    std::uint64_t job = 0;        ///< which of the jobs that use one port one after the other
    Socket listening = Socket();  ///< rank 0's
    std::string address;          ///< the others': where that is
    int port = 0;
    int data_port = 0;  ///< where this rank listens for data; 0: nowhere
    /// The others': before each attempt, where the port and the secret are not known yet, or may be those of a job before.
    /// False: there is nobody yet.
    std::function<bool(Settings&)> find = {};
    bool checks = false;
    std::string mover = {};  ///< as Backend::rank_mover() has it
    RankReach reach = RankReach::host;
    RankProcess process = this_process();
    std::optional<std::chrono::milliseconds> silence = {};  ///< nothing: rank_silence()
    RankClock::time_point deadline;
  };
  struct Peer {
    std::string host;
    std::string address;
    int data_port = 0;
    std::string mover = {};
    RankReach reach = RankReach::host;
    RankProcess process = {};
  };

  /// Waits until all ranks have come. Throws SocketError: who did not.
  explicit Control(Settings settings);
  /// Tells the others that this rank is through, unless its process dies first. Waits for half a second at most.
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  const std::vector<Peer>& peers() const;
  /// Whether some rank wants each call compared before it moves data.
  bool checks() const;
  /// A number by chance that all ranks have, and no other job: its communicators are known by it in all processes.
  std::uint64_t job() const;
  /// Connections that did not know the secret.
  std::size_t refused() const;
  /// Messages for communicator `number` go to the listener; 0 is the one of all ranks.
  void attach(std::uint64_t number, std::weak_ptr<RankListener> listener);
  /// From here on it listens.
  void start();

  // By any thread. None waits.
  /// `fingerprint`: of the other rank's send or receive that did not fit; else 0.
  void report(std::uint64_t communicator, Inquiry reason, std::uint64_t call, int blamed, const std::string& what,
              std::uint64_t fingerprint = 0);
  /// What it has called: collectives, and sends and receives with each other rank. `last`: the text of its last call, for the
  /// tables of the others.
  void leave(std::uint64_t communicator, std::uint64_t calls, const std::vector<RankListener::PairCounts>& pairs,
             const std::string& last);
  void split(std::uint64_t communicator, std::uint64_t number, int color, int key);
  /// Until what was said is out, for half a second at most.
  void flush() const;
  /// False: rank 0 is gone, so that nobody decides.
  bool decides() const;

 private:
  class Shared;
  std::shared_ptr<Shared> shared_;
};

/// How long a process may be silent before it counts as dead: WEIR_RANK_SILENCE in seconds, or 10. Throws SocketError.
std::chrono::milliseconds rank_silence();

}  // namespace weir::detail
