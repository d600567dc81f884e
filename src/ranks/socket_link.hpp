// Data between processes by TCP: one connection for each pair of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/control.hpp"
#include "ranks/link.hpp"

namespace weir::detail {

/// Short messages go at once; of longer ones the receiver is told, and asks for them when it has a place.
class SocketLink final : public RankLink {
 public:
  /// Connects to all `peers`, of which this one is `rank`; they do the same. Throws SocketError: who did not come.
  SocketLink(int rank, const std::vector<Control::Peer>& peers, Socket listening, const std::string& secret,
             RankClock::time_point deadline);

  std::string_view name() const override { return "sockets"; }
  bool outlives_ranks() const override { return true; }
  void send(Transfer& transfer, int to, std::uint32_t tag, const std::byte* data, std::size_t bytes) override;
  void receive(Transfer& transfer, int from, std::uint32_t tag, std::byte* data, std::size_t room) override;
  void gather() override { gathers_ = true; }
  void give_out() override;
  void test(Transfer& transfer) override;
  bool cancel(Transfer& transfer) override;
  void forget(int rank) override;

 private:
  enum class Kind : std::uint32_t { shorter, offer, wanted, longer, last = longer };
  struct Head {
    Kind kind;
    std::uint32_t tag;
    std::uint64_t bytes;
    std::uint64_t id;  ///< of a longer message
  };
  /// On its way out.
  struct Segment {
    std::string own;                  ///< heads, and short messages
    const std::byte* data = nullptr;  ///< what follows, of the caller's memory
    std::size_t bytes = 0;
    std::size_t written = 0;  ///< of both
    Transfer* transfer = nullptr;
  };
  struct Arrived {
    Head head;
    std::string payload;
  };
  struct Posted {
    Transfer* transfer;
    std::uint32_t tag;
    std::byte* data;
    std::size_t room;
    std::uint64_t id = 0;  ///< asked for
  };
  struct Offered {
    Transfer* transfer;
    std::uint64_t id;
    const std::byte* data;
    std::size_t bytes;
  };
  struct Peer {
    Socket socket;
    std::deque<Segment> out = {};
    std::deque<Posted> posted = {};   ///< in the order of their calls
    std::list<Arrived> arrived = {};  ///< that nobody has asked for yet
    std::vector<Offered> offered = {};
    std::string head = {};  ///< as much of one as has arrived
    std::size_t payload_left = 0;
    std::byte* payload_to = nullptr;  ///< null: to nowhere
    Transfer* payload_of = nullptr;
    bool payload_kept = false;  ///< it goes to the last one that arrived
    bool dead = false;
  };

  void progress();
  void write_out(Peer& peer);
  void note_written(Peer& peer, std::size_t bytes);
  void read_in(Peer& peer);
  /// False: it is no message.
  bool take(Peer& peer, const char* from, std::size_t bytes);
  bool take_head(int from, const Head& head);
  /// Gives what has arrived to who has asked for it.
  void match(int from);
  void end_payload(Peer& peer);
  void lose(Peer& peer);
  void queue(int to, const Head& head, std::string payload);

  const int rank_;
  bool gathers_ = false;
  std::vector<Peer> peers_;
  std::uint64_t next_id_ = 1;
};

}  // namespace weir::detail
