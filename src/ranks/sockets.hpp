// TCP sockets between the processes of a job.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "ranks/message.hpp"

namespace weir::detail {

using RankClock = std::chrono::steady_clock;

/// A file of this process alone: a child that forks does not have it.
class Socket {
 public:
  explicit Socket(int number = -1);
  Socket(Socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Socket() { close(); }
  int get() const { return number_; }
  bool open() const { return number_ >= 0; }
  void close() noexcept;

 private:
  int number_;
};

/// Why something could not be had: a sentence. Callers say for whom.
struct SocketError {
  enum class Kind : std::uint8_t { other, late, gone };  ///< gone: a process that was there
  std::string what;
  Kind kind = Kind::other;
};

/// A socket that listens at the address, of which `port` 0 is any; and the port that it has. Throws SocketError.
std::pair<Socket, int> listen_at(const std::string& address, int port);
/// Connected, or closed where nobody listens there yet. Throws SocketError for what is no address.
Socket connect_to(const std::string& address, int port, RankClock::time_point until);
/// Nobody was waiting: closed.
Socket accept_from(const Socket& listening);
/// The other end's address.
std::string peer_address(const Socket& socket);
std::string own_host_name();
/// An address of this host that others reach it by.
std::string own_address();
/// Sixteen random bytes in hexadecimal.
std::string random_secret();
/// Likewise, of 64 bits.
std::uint64_t random_number();
/// In a time that does not depend on where they differ.
bool same_secret(std::string_view a, std::string_view b);

/// Messages over a socket. Never waits.
class Connection {
 public:
  explicit Connection(Socket socket, std::size_t longest = longest_frame)
      : socket_(std::move(socket)), reader_(longest) {}
  const Socket& socket() const { return socket_; }
  bool open() const { return socket_.open(); }
  void close() { socket_.close(); }
  /// It goes on without messages. What was read beyond the last one is gone.
  Socket take_socket() { return std::move(socket_); }
  bool has_to_write() const { return !out_.empty(); }
  void queue(const ControlMessage& message) { out_ += frame_of(message); }
  /// Reads what is there, and writes what can be written. False: the other end is gone, or sent what is no message; what came
  /// before that is in the reader.
  bool move();
  FrameReader& reader() { return reader_; }

 private:
  Socket socket_;
  FrameReader reader_;
  std::string out_;
};

}  // namespace weir::detail
