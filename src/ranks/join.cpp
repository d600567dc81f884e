// How the ranks of a job find each other.
#include "ranks/join.hpp"

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include <poll.h>

#include "ranks/door.hpp"

namespace weir::detail {

namespace {

using Type = ControlMessage::Type;

constexpr std::chrono::milliseconds between_attempts{20};
constexpr std::chrono::milliseconds between_looks{100};  ///< at whether those who came are there still
using Kind = SocketError::Kind;

ControlMessage hello_of(const Control::Settings& settings) {
  return {Type::hello,
          {rank_protocol, static_cast<std::uint64_t>(settings.rank), static_cast<std::uint64_t>(settings.size),
           settings.job, static_cast<std::uint64_t>(settings.data_port), settings.checks ? 1u : 0u,
           static_cast<std::uint64_t>(settings.reach), settings.process.machine, settings.process.number},
          {settings.secret, own_host_name(), settings.mover}};
}

/// Rank 0, until all have come.
class Gathering {
 public:
  explicit Gathering(Control::Settings& settings)
      : settings_(settings), door_(std::in_place, std::move(settings.listening), settings.secret) {
    const auto size = static_cast<std::size_t>(settings.size);
    for (std::size_t r = 0; r < size; ++r) joined_.connections.emplace_back(Socket());
    joined_.peers.resize(size);
    joined_.peers[0] = {own_host_name(), settings.address, settings.data_port,
                        settings.mover,  settings.reach,   settings.process};
    joined_.checks = settings.checks;
    joined_.job = random_number();
  }

  Joined run() {
    for (std::size_t missing = joined_.peers.size() - 1; missing > 0;) {
      std::optional<Door::Guest> guest = door_->next(std::min(settings_.deadline, RankClock::now() + between_looks));
      if (guest) missing -= joins(*guest) ? 1 : 0;
      look_who_is_gone();
      if (!guest && RankClock::now() >= settings_.deadline)
        give_up(0, "these ranks did not come: " + names_of_missing(), Kind::late);
    }
    joined_.refused += door_->refused();
    door_.reset();  // nobody else has to come
    welcome();
    return std::move(joined_);
  }

 private:
  bool joins(Door::Guest& guest) {
    const ControlMessage& hello = guest.hello;
    if (!hello.has(9, 3) || hello.numbers[0] != rank_protocol ||
        hello.numbers[6] > static_cast<std::uint64_t>(RankReach::last)) {
      ++joined_.refused;
      return false;
    }
    const std::uint64_t rank = hello.numbers[1];
    // A rank of the next job comes again when this one has its ranks.
    if (hello.numbers[2] != joined_.peers.size() || hello.numbers[3] != settings_.job) return false;
    if (rank == 0 || rank >= joined_.peers.size()) return false;
    Connection& place = joined_.connections[static_cast<std::size_t>(rank)];
    if (place.open()) return false;
    joined_.peers[static_cast<std::size_t>(rank)] = {
        hello.texts[1], peer_address(guest.connection.socket()),  static_cast<int>(hello.numbers[4] & 0xffff),
        hello.texts[2], static_cast<RankReach>(hello.numbers[6]), {hello.numbers[7], hello.numbers[8]}};
    joined_.checks = joined_.checks || hello.numbers[5] != 0;
    place = std::move(guest.connection);
    place.reader().allow(longest_frame);
    place.queue({Type::alive, {}});  // it waits for this job's ranks from here on
    return true;
  }

  std::string names_of_missing() const {
    std::string names;
    for (std::size_t r = 1; r < joined_.connections.size(); ++r) {
      if (!joined_.connections[r].open()) names += (names.empty() ? "" : ", ") + std::to_string(r);
    }
    return names;
  }

  void look_who_is_gone() {
    for (std::size_t r = 1; r < joined_.connections.size(); ++r) {
      Connection& connection = joined_.connections[r];
      if (!connection.open() || connection.move()) continue;
      connection = Connection(Socket());
      give_up(r,
              "rank " + std::to_string(r) + " (" + joined_.peers[r].host + ") came, and its process is gone before " +
                  "all ranks had come",
              Kind::gone);
    }
  }

  /// Nobody waits for what cannot be any more.
  [[noreturn]] void give_up(std::size_t rank, const std::string& why, Kind kind) {
    tell_all({Type::dead, {rank, static_cast<std::uint64_t>(kind)}, {why}}, RankClock::now() + between_looks);
    throw SocketError{why, kind};
  }

  void welcome() {
    ControlMessage told{Type::welcome, {joined_.checks ? 1u : 0u}};
    for (const Control::Peer& peer : joined_.peers) {
      told.numbers.push_back(static_cast<std::uint64_t>(peer.data_port));
      told.texts.push_back(peer.host);
      told.texts.push_back(peer.address);
      told.texts.push_back(peer.mover);
    }
    told.numbers.push_back(joined_.job);
    for (const Control::Peer& peer : joined_.peers) told.numbers.push_back(static_cast<std::uint64_t>(peer.reach));
    const RankProcess& own = joined_.peers[0].process;  // who looks after the others
    told.numbers.insert(told.numbers.end(), {own.machine, own.number});
    // The others go on when they have it. Who is gone by now is found by the control.
    tell_all(told, settings_.deadline);
  }

  void tell_all(const ControlMessage& told, RankClock::time_point until) {
    for (Connection& connection : joined_.connections) {
      if (connection.open()) connection.queue(told);
    }
    for (Connection& connection : joined_.connections) {
      while (connection.open() && connection.has_to_write()) {
        if (!connection.move() || !connection.has_to_write() || RankClock::now() >= until) break;
        pollfd file{connection.socket().get(), POLLOUT, 0};
        poll(&file, 1, 100);
      }
    }
  }

  Control::Settings& settings_;
  std::optional<Door> door_;
  Joined joined_;
};

/// The welcome, or nothing where rank 0 closed the connection: it is busy with another job. Throws SocketError: this one cannot be.
std::optional<ControlMessage> knock(const Control::Settings& settings, Connection& connection) {
  connection.queue(hello_of(settings));
  bool let_in = false;
  while (RankClock::now() < settings.deadline) {
    const bool open = connection.move();
    while (std::optional<ControlMessage> message = connection.reader().next()) {
      if (message->type == Type::dead && message->has(2, 1)) {
        const bool gone = message->numbers[1] == static_cast<std::uint64_t>(Kind::gone);
        throw SocketError{message->texts[0], gone ? Kind::gone : Kind::late};
      }
      if (message->type != Type::alive) return message;
      let_in = true;
    }
    if (!open && let_in) throw SocketError{"rank 0's process is gone before all ranks had come", Kind::gone};
    if (!open || connection.reader().broken()) return std::nullopt;
    pollfd file{connection.socket().get(), static_cast<short>(POLLIN | (connection.has_to_write() ? POLLOUT : 0)), 0};
    poll(&file, 1, milliseconds_until(settings.deadline));
  }
  return std::nullopt;
}

RankReach reach_of(std::uint64_t number) {
  return number > static_cast<std::uint64_t>(RankReach::last) ? RankReach::none : static_cast<RankReach>(number);
}

Joined connect(Control::Settings& settings) {
  const auto size = static_cast<std::size_t>(settings.size);
  while (RankClock::now() < settings.deadline) {
    const bool found = !settings.find || settings.find(settings);
    Socket socket = found ? connect_to(settings.address, settings.port, settings.deadline) : Socket();
    if (socket.open()) {
      Connection connection(std::move(socket));
      const std::optional<ControlMessage> welcome = knock(settings, connection);
      if (welcome && welcome->type == Type::welcome && welcome->has(4 + 2 * size, 3 * size)) {
        Joined joined;
        joined.checks = welcome->numbers[0] != 0;
        joined.job = welcome->numbers[1 + size];
        for (std::size_t r = 0; r < size; ++r) {
          joined.peers.push_back({welcome->texts[3 * r], welcome->texts[3 * r + 1],
                                  static_cast<int>(welcome->numbers[1 + r] & 0xffff), welcome->texts[3 * r + 2],
                                  reach_of(welcome->numbers[2 + size + r])});
        }
        joined.peers[0].address = settings.address;
        joined.peers[0].process = {welcome->numbers[2 + 2 * size], welcome->numbers[3 + 2 * size]};
        joined.connections.push_back(std::move(connection));
        return joined;
      }
    }
    std::this_thread::sleep_for(between_attempts);
  }
  if (settings.port == 0) throw SocketError{"rank 0 did not come", Kind::late};
  throw SocketError{
      "rank 0 did not answer at " + settings.address + ":" + std::to_string(settings.port) + ", or not all ranks came",
      Kind::late};
}

}  // namespace

Joined join_job(Control::Settings& settings) {
  return settings.rank == 0 ? Gathering(settings).run() : connect(settings);
}

}  // namespace weir::detail
