// Data between processes by TCP.
#include "ranks/socket_link.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "ranks/door.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t most_at_once = 8192;  ///< bytes of a short message
constexpr std::size_t most_offers = 1 << 16;
constexpr std::size_t most_written = 256;  ///< heads and their data, at a time

/// Said by who accepted a connection: until then it may be closed because too many strangers came, and is made again.
constexpr char welcome = 'w';

bool hear_welcome(const Socket& socket, RankClock::time_point deadline) {
  while (RankClock::now() < deadline) {
    char byte = 0;
    const ssize_t got = recv(socket.get(), &byte, 1, 0);  // data may follow at once, which is not to be read here
    if (got > 0) return byte == welcome;
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) return false;
    pollfd file{socket.get(), POLLIN, 0};
    poll(&file, 1, milliseconds_until(deadline));
  }
  return false;
}

Socket connect_and_say(int rank, const Control::Peer& peer, const std::string& secret, RankClock::time_point deadline) {
  const std::string hello = frame_of({ControlMessage::Type::hello, {static_cast<std::uint64_t>(rank)}, {secret}});
  while (RankClock::now() < deadline) {
    Socket socket = connect_to(peer.address, peer.data_port, deadline);
    if (socket.open()) {
      const ssize_t written = ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
      // A fresh socket takes it whole.
      if (written == static_cast<ssize_t>(hello.size()) && hear_welcome(socket, deadline)) return socket;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return Socket();
}

}  // namespace

SocketLink::SocketLink(int rank, const std::vector<Control::Peer>& peers, Socket listening, const std::string& secret,
                       RankClock::time_point deadline)
    : rank_(rank), peers_(peers.size()) {
  for (int r = 0; r < rank; ++r) {
    peers_[static_cast<std::size_t>(r)].socket =
        connect_and_say(rank, peers[static_cast<std::size_t>(r)], secret, deadline);
  }
  Door door(std::move(listening), secret);
  for (std::size_t missing = peers.size() - 1 - static_cast<std::size_t>(rank); missing > 0;) {
    std::optional<Door::Guest> guest = door.next(deadline);
    if (!guest) break;
    const std::uint64_t from = guest->hello.numbers[0];
    if (from <= static_cast<std::uint64_t>(rank) || from >= peers.size() || peers_[from].socket.open()) continue;
    if (::send(guest->connection.socket().get(), &welcome, 1, MSG_NOSIGNAL) != 1) continue;
    peers_[from].socket = guest->connection.take_socket();
    --missing;
  }
  std::string names;
  for (std::size_t r = 0; r < peers_.size(); ++r) {
    if (static_cast<int>(r) != rank && !peers_[r].socket.open())
      names += (names.empty() ? "" : ", ") + std::to_string(r);
  }
  if (!names.empty()) throw SocketError{"no connection for data with these ranks: " + names};
}

void SocketLink::queue(int to, const Head& head, std::string payload) {
  Segment segment;
  segment.own.resize(sizeof head);
  std::memcpy(segment.own.data(), &head, sizeof head);
  segment.own += payload;
  peers_[static_cast<std::size_t>(to)].out.push_back(std::move(segment));
}

void SocketLink::send(Transfer& transfer, int to, std::uint32_t tag, const std::byte* data, std::size_t bytes) {
  Peer& peer = peers_[static_cast<std::size_t>(to)];
  transfer = {.state = Transfer::State::under_way, .bytes = 0, .handle = {static_cast<std::uint64_t>(to), 0}};
  if (peer.dead) {
    transfer.state = Transfer::State::failed;
  } else if (to == rank_) {
    peer.arrived.push_back({{Kind::shorter, tag, bytes, 0}, {reinterpret_cast<const char*>(data), bytes}});
    transfer.state = Transfer::State::done;
    match(to);
  } else if (bytes <= most_at_once) {
    queue(to, {Kind::shorter, tag, bytes, 0}, {reinterpret_cast<const char*>(data), bytes});
    transfer.state = Transfer::State::done;
    write_out(peer);
  } else {
    const std::uint64_t id = next_id_++;
    peer.offered.push_back({&transfer, id, data, bytes});
    queue(to, {Kind::offer, tag, bytes, id}, {});
    write_out(peer);
  }
}

void SocketLink::receive(Transfer& transfer, int from, std::uint32_t tag, std::byte* data, std::size_t room) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  transfer = {.state = Transfer::State::under_way, .bytes = 0, .handle = {static_cast<std::uint64_t>(from), 0}};
  peer.posted.push_back({&transfer, tag, data, room});
  match(from);
  if (peer.dead) cancel(transfer);
}

void SocketLink::match(int from) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  for (auto posted = peer.posted.begin(); posted != peer.posted.end();) {
    const auto found = std::find_if(peer.arrived.begin(), peer.arrived.end(),
                                    [&](const Arrived& one) { return one.head.tag == posted->tag; });
    // What is still on its way in comes last.
    const bool complete = found != peer.arrived.end() && !(peer.payload_kept && &*found == &peer.arrived.back());
    if (posted->id != 0 || !complete) {
      ++posted;
      continue;
    }
    Transfer& transfer = *posted->transfer;
    if (found->head.bytes > posted->room) {
      transfer.state = Transfer::State::too_long;
    } else if (found->head.kind == Kind::offer) {
      posted->id = found->head.id;
      transfer.bytes = found->head.bytes;
      queue(from, {Kind::wanted, found->head.tag, 0, found->head.id}, {});
      peer.arrived.erase(found);
      write_out(peer);
      posted = peer.posted.begin();
      continue;
    } else {
      if (!found->payload.empty()) std::memcpy(posted->data, found->payload.data(), found->payload.size());
      transfer.bytes = found->payload.size();
      transfer.state = Transfer::State::done;
    }
    peer.arrived.erase(found);
    posted = peer.posted.erase(posted);
  }
}

void SocketLink::test(Transfer& transfer) {
  if (transfer.state != Transfer::State::under_way) return;
  progress();
}

void SocketLink::progress() {
  std::array<pollfd, 64> files;
  for (std::size_t first = 0; first < peers_.size(); first += files.size()) {
    const std::size_t count = std::min(files.size(), peers_.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const Peer& peer = peers_[first + i];
      files[i] = {peer.socket.get(), static_cast<short>(POLLIN | (peer.out.empty() ? 0 : POLLOUT)), 0};
    }
    if (poll(files.data(), count, 0) <= 0) continue;
    for (std::size_t i = 0; i < count; ++i) {
      Peer& peer = peers_[first + i];
      if ((files[i].revents & POLLOUT) != 0) write_out(peer);
      if ((files[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 && peer.socket.open()) read_in(peer);
    }
  }
}

void SocketLink::give_out() {
  gathers_ = false;
  for (Peer& peer : peers_) write_out(peer);
}

void SocketLink::write_out(Peer& peer) {
  if (gathers_) return;
  while (!peer.out.empty() && peer.socket.open()) {
    std::array<iovec, most_written> parts;
    std::size_t count = 0;
    for (auto one = peer.out.begin(); one != peer.out.end() && count + 2 <= parts.size(); ++one) {
      const std::size_t of_own = std::min(one->written, one->own.size());
      const std::size_t of_data = one->written - of_own;
      if (of_own < one->own.size()) parts[count++] = {one->own.data() + of_own, one->own.size() - of_own};
      if (of_data < one->bytes) parts[count++] = {const_cast<std::byte*>(one->data) + of_data, one->bytes - of_data};
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t written = count == 0 ? 0 : ::sendmsg(peer.socket.get(), &message, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (written < 0) return lose(peer);
    note_written(peer, static_cast<std::size_t>(written));
  }
}

void SocketLink::note_written(Peer& peer, std::size_t bytes) {
  while (!peer.out.empty()) {
    Segment& segment = peer.out.front();
    const std::size_t here = std::min(bytes, segment.own.size() + segment.bytes - segment.written);
    segment.written += here;
    bytes -= here;
    if (segment.written < segment.own.size() + segment.bytes) return;
    if (segment.transfer != nullptr) segment.transfer->state = Transfer::State::done;
    peer.out.pop_front();
  }
}

void SocketLink::read_in(Peer& peer) {
  std::array<char, 64 * 1024> sink;
  for (int rounds = 0; rounds < 64; ++rounds) {
    // What is long goes where it belongs, and the rest together.
    const bool straight = peer.payload_to != nullptr && peer.payload_left >= sink.size();
    char* const to = straight ? reinterpret_cast<char*>(peer.payload_to) : sink.data();
    const std::size_t room = straight ? peer.payload_left : sink.size();
    const ssize_t got = recv(peer.socket.get(), to, room, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (got <= 0 || !take(peer, to, static_cast<std::size_t>(got))) return lose(peer);
    if (static_cast<std::size_t>(got) < room) return;  // no more has come
  }
}

bool SocketLink::take(Peer& peer, const char* from, std::size_t bytes) {
  while (bytes > 0) {
    if (peer.payload_left > 0) {
      const std::size_t here = std::min(bytes, peer.payload_left);
      const bool is_there = reinterpret_cast<const char*>(peer.payload_to) == from;
      if (peer.payload_to != nullptr && !is_there) std::memcpy(peer.payload_to, from, here);
      if (peer.payload_to != nullptr) peer.payload_to += here;
      peer.payload_left -= here;
      from += here;
      bytes -= here;
      if (peer.payload_left == 0) end_payload(peer);
      continue;
    }
    const std::size_t here = std::min(bytes, sizeof(Head) - peer.head.size());
    peer.head.append(from, here);
    from += here;
    bytes -= here;
    if (peer.head.size() < sizeof(Head)) return true;
    Head head;
    std::memcpy(&head, peer.head.data(), sizeof head);
    peer.head.clear();
    if (!take_head(static_cast<int>(&peer - peers_.data()), head)) return false;
  }
  return true;
}

bool SocketLink::take_head(int from, const Head& head) {
  Peer& peer = peers_[static_cast<std::size_t>(from)];
  switch (head.kind) {
    case Kind::shorter:
      if (head.bytes > most_at_once) return false;
      peer.arrived.push_back({head, std::string(head.bytes, '\0')});
      peer.payload_left = head.bytes;
      peer.payload_to = reinterpret_cast<std::byte*>(peer.arrived.back().payload.data());
      peer.payload_kept = head.bytes > 0;
      if (head.bytes == 0) match(from);
      return true;
    case Kind::offer:
      if (peer.arrived.size() >= most_offers) return false;
      peer.arrived.push_back({head, {}});
      match(from);
      return true;
    case Kind::wanted: {
      const auto found =
          std::find_if(peer.offered.begin(), peer.offered.end(), [&](const Offered& one) { return one.id == head.id; });
      if (found == peer.offered.end()) return true;  // it was given up
      const Head longer{Kind::longer, head.tag, found->bytes, head.id};
      queue(from, longer, {});
      peer.out.back().data = found->data;
      peer.out.back().bytes = found->bytes;
      peer.out.back().transfer = found->transfer;
      peer.offered.erase(found);
      write_out(peer);
      return peer.socket.open();
    }
    case Kind::longer: {
      const auto found = std::find_if(peer.posted.begin(), peer.posted.end(),
                                      [&](const Posted& one) { return one.id == head.id && head.id != 0; });
      peer.payload_left = head.bytes;
      peer.payload_to = nullptr;
      if (found == peer.posted.end()) return true;  // to nowhere
      if (head.bytes != found->transfer->bytes || head.bytes == 0) return false;
      peer.payload_to = found->data;
      peer.payload_of = found->transfer;
      return true;
    }
  }
  return false;
}

void SocketLink::end_payload(Peer& peer) {
  const int from = static_cast<int>(&peer - peers_.data());
  peer.payload_to = nullptr;
  peer.payload_kept = false;
  if (Transfer* transfer = std::exchange(peer.payload_of, nullptr)) {
    transfer->state = Transfer::State::done;
    std::erase_if(peer.posted, [&](const Posted& one) { return one.transfer == transfer; });
  }
  match(from);
}

bool SocketLink::cancel(Transfer& transfer) {
  if (transfer.state != Transfer::State::under_way) return true;
  transfer.state = Transfer::State::failed;
  Peer& peer = peers_[transfer.handle[0]];
  if (peer.payload_of == &transfer) {
    peer.payload_of = nullptr;
    peer.payload_to = nullptr;  // what is still to come goes nowhere
  }
  std::erase_if(peer.posted, [&](const Posted& one) { return one.transfer == &transfer; });
  std::erase_if(peer.offered, [&](const Offered& one) { return one.transfer == &transfer; });
  for (Segment& segment : peer.out) {
    if (segment.transfer != &transfer) continue;
    segment.own.append(reinterpret_cast<const char*>(segment.data), segment.bytes);
    segment.bytes = 0;
    segment.data = nullptr;
    segment.transfer = nullptr;
  }
  return true;
}

void SocketLink::forget(int rank) {
  // What has arrived is still given to who asks for it.
  Peer& peer = peers_[static_cast<std::size_t>(rank)];
  if (rank != rank_ && !peer.dead && peer.socket.open()) read_in(peer);
}

void SocketLink::lose(Peer& peer) {
  peer.socket.close();
  peer.dead = true;
  const auto fail = [](Transfer* transfer) {
    if (transfer != nullptr) transfer->state = Transfer::State::failed;
  };
  for (const Posted& one : peer.posted) fail(one.transfer);
  for (const Offered& one : peer.offered) fail(one.transfer);
  for (const Segment& one : peer.out) fail(one.transfer);
  peer.posted.clear();
  peer.offered.clear();
  peer.out.clear();
  peer.payload_of = nullptr;
  peer.payload_to = nullptr;
}

}  // namespace weir::detail
