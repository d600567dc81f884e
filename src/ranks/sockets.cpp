// TCP sockets between the processes of a job.
#include "ranks/sockets.hpp"

#include <array>
#include <cerrno>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "thread_safety.hpp"

namespace weir::detail {

namespace {

constexpr std::size_t most_read_at_once = 256 * 1024;  ///< so that nobody holds the others up

std::string reason() { return std::generic_category().message(errno); }

sockaddr_in resolve(const std::string& address, int port) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &wanted, &found) != 0 || found == nullptr) {
    throw SocketError{"there is no host '" + address + "'"};
  }
  sockaddr_in result = *reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  freeaddrinfo(found);
  result.sin_port = htons(static_cast<std::uint16_t>(port));
  return result;
}

std::string text_of(const sockaddr_in& address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  return text.data();
}

/// A child that forked has its parent's sockets, too, and would keep them open when the parent is killed: it closes its own,
/// without a word to the other end. Never destroyed.
class OpenSockets {
 public:
  OpenSockets() { pthread_atfork(before_fork, in_parent, in_child); }
  static OpenSockets& open_sockets() {
    static auto& one = *new OpenSockets;
    return one;
  }
  void add(int number) {
    const LockGuard guard(mutex_);
    numbers_.push_back(number);
  }
  /// In a child the number may be another file's by now.
  void close(int number) noexcept {
    const LockGuard guard(mutex_);
    if (std::erase(numbers_, number) > 0) ::close(number);
  }

 private:
  // The lock goes from one to the other, so that no socket is between being open and being known.
  static void before_fork() WEIR_NOT_ANALYSED { open_sockets().mutex_.lock(); }
  static void in_parent() WEIR_NOT_ANALYSED { open_sockets().mutex_.unlock(); }
  static void in_child() WEIR_NOT_ANALYSED {
    OpenSockets& all = open_sockets();
    for (const int number : all.numbers_) ::close(number);
    all.numbers_.clear();
    all.mutex_.unlock();
  }

  Mutex mutex_;
  std::vector<int> numbers_ WEIR_GUARDED_BY(mutex_);
};
OpenSockets& open_sockets() { return OpenSockets::open_sockets(); }

void set_up(const Socket& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

Socket::Socket(int number) : number_(number) {
  if (number_ >= 0) open_sockets().add(number_);
}

void Socket::close() noexcept {
  if (number_ >= 0) open_sockets().close(std::exchange(number_, -1));
}

std::pair<Socket, int> listen_at(const std::string& address, int port) {
  sockaddr_in at = resolve(address, port);
  Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (made.open()) setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  socklen_t size = sizeof at;
  auto* const any = reinterpret_cast<sockaddr*>(&at);
  if (!made.open() || bind(made.get(), any, size) != 0 || listen(made.get(), SOMAXCONN) != 0 ||
      getsockname(made.get(), any, &size) != 0) {
    throw SocketError{"no socket can listen at " + address + ":" + std::to_string(port) + ": " + reason()};
  }
  return {std::move(made), ntohs(at.sin_port)};
}

Socket connect_to(const std::string& address, int port, RankClock::time_point until) {
  const sockaddr_in at = resolve(address, port);
  Socket made(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!made.open()) throw SocketError{"no socket can be made: " + reason()};
  if (connect(made.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) {
    if (errno != EINPROGRESS) return Socket();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - RankClock::now()).count();
    pollfd file{made.get(), POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    if (poll(&file, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) != 1 ||
        getsockopt(made.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
      return Socket();
    }
  }
  set_up(made);
  return made;
}

Socket accept_from(const Socket& listening) {
  Socket made(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (made.open()) set_up(made);
  return made;
}

std::string peer_address(const Socket& socket) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return text_of(address);
}

std::string own_host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) != 0) return "localhost";
  return name.data();
}

std::string own_address() {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "127.0.0.1";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, &freeifaddrs);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET) continue;
    if ((one->ifa_flags & IFF_LOOPBACK) != 0 || (one->ifa_flags & IFF_UP) == 0) continue;
    return text_of(*reinterpret_cast<const sockaddr_in*>(one->ifa_addr));
  }
  return "127.0.0.1";
}

namespace {
void fill_by_chance(void* bytes, std::size_t size) {
  if (getrandom(bytes, size, 0) != static_cast<ssize_t>(size)) throw SocketError{"the system gives no random bytes"};
}
}  // namespace

std::string random_secret() {
  std::array<unsigned char, 16> bytes{};
  fill_by_chance(bytes.data(), bytes.size());
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::uint64_t random_number() {
  std::uint64_t number = 0;
  fill_by_chance(&number, sizeof number);
  return number;
}

bool same_secret(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned char different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different |= static_cast<unsigned char>(a[i] ^ b[i]);
  return different == 0;
}

bool Connection::move() {
  while (!out_.empty()) {
    const ssize_t written = send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (written < 0) return false;
    out_.erase(0, static_cast<std::size_t>(written));
  }
  std::array<char, 16 * 1024> room;
  for (std::size_t all = 0; all < most_read_at_once;) {
    const ssize_t got = recv(socket_.get(), room.data(), room.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    reader_.add({room.data(), static_cast<std::size_t>(got)});
    all += static_cast<std::size_t>(got);
  }
  return true;
}

}  // namespace weir::detail
