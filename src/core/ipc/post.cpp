// Sockets, descriptors along them, and the thread that reads.
#include "core/ipc/post.hpp"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

namespace weir::detail::ipc {

namespace {

constexpr std::chrono::milliseconds nap{10};
constexpr int pause_when_full = 100;  ///< ms before it looks again whether there is a descriptor

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};
Address address_of(const Secret& process) {
  Address address;
  address.name.sun_family = AF_UNIX;
  const std::string name = socket_name(process);
  std::copy(name.begin(), name.end(), address.name.sun_path + 1);  // behind the zero of abstract names
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

/// Whether the same user is at the other end.
bool is_ours(int socket) {
  ucred other{};
  socklen_t size = sizeof other;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &other, &size) == 0 && other.uid == geteuid();
}

File new_socket() { return File(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)); }

/// Room for one descriptor beside a message.
union Control {
  cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

/// 0, or errno.
int send_packet(int socket, const Message& message, int file) {
  iovec data{const_cast<Message*>(&message), sizeof message};
  msghdr packet{};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  Control control{};
  if (file >= 0) {
    packet.msg_control = &control;
    packet.msg_controllen = sizeof control;
    cmsghdr* first = CMSG_FIRSTHDR(&packet);
    first->cmsg_level = SOL_SOCKET;
    first->cmsg_type = SCM_RIGHTS;
    first->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(first), &file, sizeof file);
  }
  ssize_t sent = 0;
  do {
    sent = sendmsg(socket, &packet, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent < 0 ? errno : 0;
}

File file_of(const msghdr& packet) {
  const cmsghdr* first = CMSG_FIRSTHDR(&packet);
  if (first == nullptr || first->cmsg_level != SOL_SOCKET || first->cmsg_type != SCM_RIGHTS) return {};
  int file = -1;
  std::memcpy(&file, CMSG_DATA(first), sizeof file);
  return File(file);
}

}  // namespace

File::~File() {
  if (number_ >= 0) ::close(number_);
}

bool Connection::send(const Message& message, int file) noexcept {
  bool keep = false;
  {
    const LockGuard guard(mutex_);
    if (over_) return false;
    const int failure = kept_.empty() ? send_packet(socket_.get(), message, file) : EAGAIN;
    if (failure == 0) return true;
    try {
      if (failure != EAGAIN || kept_.size() == most_kept) throw std::bad_alloc();
      File copy(file < 0 ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0));
      if (file >= 0 && copy.get() < 0) throw std::bad_alloc();
      kept_.push_back({message, std::move(copy)});
      keep = true;
    } catch (const std::bad_alloc&) {
      ::shutdown(socket_.get(), SHUT_RDWR);  // the other shall not wait for what it will never hear
    }
  }
  if (keep) Post::get().wake();
  return keep;
}

void Connection::send_kept() noexcept {
  const LockGuard guard(mutex_);
  while (!kept_.empty()) {
    const int failure = send_packet(socket_.get(), kept_.front().message, kept_.front().file.get());
    if (failure == EAGAIN) return;
    if (failure != 0) ::shutdown(socket_.get(), SHUT_RDWR);
    kept_.pop_front();
  }
}

bool Connection::has_kept() {
  const LockGuard guard(mutex_);
  return !kept_.empty();
}

void Connection::shut() noexcept {
  const LockGuard guard(mutex_);
  if (!over_) ::shutdown(socket_.get(), SHUT_RDWR);
}

void Connection::close_socket() noexcept {
  const LockGuard guard(mutex_);
  over_ = true;
  kept_.clear();
  const File gone(std::move(socket_));
}

bool Connection::receive() {
  Message message;
  iovec data{&message, sizeof message};
  Control control{};
  msghdr packet{};
  packet.msg_iov = &data;
  packet.msg_iovlen = 1;
  packet.msg_control = &control;
  packet.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket_.get(), &packet, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0) return errno == EAGAIN || errno == EINTR;
  File file = file_of(packet);
  const bool whole = got == sizeof message && (packet.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
  if (!whole || message.magic != Message{}.magic) return false;
  try {
    handle(message, std::move(file));
  } catch (const std::bad_alloc&) {
    return false;  // the other hears of it by the end
  }
  return true;
}

Post& Post::get() {
  static auto& post = *new Post;
  return post;
}

const Secret& Post::listen(Accept accept, const char* operation, SourceLocation where) {
  const LockGuard guard(mutex_);
  if (listening_.load() >= 0) return own_;
  start(operation, where);
  const Secret name = new_secret();
  const Address address = address_of(name);
  File socket = new_socket();
  if (socket.get() < 0 || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    throw Error(Errc::not_supported, operation, "a socket for other processes", std::strerror(errno), where);
  }
  accept_ = accept;
  own_ = name;
  listening_.store(socket.release());
  wake();  // the thread may be asleep already, for this process's imports
  return own_;
}

bool Post::is_own(const Secret& process) {
  const LockGuard guard(mutex_);
  return listening_.load() >= 0 && own_ == process;
}

void Post::add(std::shared_ptr<Connection> connection, const char* operation, SourceLocation where) {
  {
    const LockGuard guard(mutex_);
    start(operation, where);
    connections_.push_back(std::move(connection));
  }
  wake();
}

void Post::wake() noexcept {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_.load(), &one, sizeof one));
}

void Post::start(const char* operation, SourceLocation where) {
  if (started_) return;
  File wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) throw Error(Errc::not_supported, operation, "other processes", std::strerror(errno), where);
  wake_.store(wake.get());
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the program's threads
  try {
    std::thread([this] { run(); }).detach();
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw Error(Errc::not_supported, operation, "other processes", std::string("no thread: ") + error.what(), where);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  wake.release();
  started_ = true;
  // A forked child has none of this: with its copies of the sockets, nobody would hear that this process has ended.
  pthread_atfork([] { get().before_fork(); }, [] { get().after_fork(); },
                 [] {
                   get().close_in_child();
                   get().after_fork();
                 });
}

void Post::close_in_child() noexcept {
  for (const auto& connection : connections_) ::close(connection->socket_.get());
  ::close(wake_.load());
  if (listening_.load() >= 0) ::close(listening_.load());
}

std::vector<std::shared_ptr<Connection>> Post::connections() {
  const LockGuard guard(mutex_);
  return connections_;
}

void Post::drop(const std::shared_ptr<Connection>& connection) noexcept {
  {
    const LockGuard guard(mutex_);
    connection->close_socket();
    std::erase(connections_, connection);
  }
  connection->ended();
}

void Post::accept_one() {
  File socket(::accept4(listening_.load(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  full_ = socket.get() < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS);
  if (socket.get() < 0 || !is_ours(socket.get())) return;
  const LockGuard guard(mutex_);
  connections_.push_back(accept_(std::move(socket)));
}

void Post::run() {
  for (;;) {
    try {
      serve_once();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(nap);  // there will be memory again, or nobody can help
    }
  }
}

void Post::serve_once() {
  const std::vector<std::shared_ptr<Connection>> all = connections();
  std::vector<pollfd> files{{wake_.load(), POLLIN, 0}, {full_ ? -1 : listening_.load(), POLLIN, 0}};
  for (const auto& connection : all) {
    const int events = connection->has_kept() ? POLLIN | POLLOUT : POLLIN;
    files.push_back({connection->socket_.get(), static_cast<short>(events), 0});
  }
  if (::poll(files.data(), files.size(), full_ ? pause_when_full : -1) < 0) {
    if (errno != EINTR) std::this_thread::sleep_for(nap);
    return;
  }
  full_ = false;
  std::uint64_t woken = 0;
  if (files[0].revents != 0) static_cast<void>(::read(wake_.load(), &woken, sizeof woken));
  if (files[1].revents != 0) accept_one();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const short seen = files[i + 2].revents;
    if ((seen & POLLOUT) != 0) all[i]->send_kept();
    // What arrived before the other's end is read first: a shut socket is readable until it is empty.
    if ((seen & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) != 0 && !all[i]->receive()) drop(all[i]);
  }
}

File connect_to(const Secret& process, const char* operation, const std::string& object, SourceLocation where) {
  File socket = new_socket();
  if (socket.get() < 0) throw Error(Errc::not_supported, operation, object, std::strerror(errno), where);
  const timeval limit{answer_seconds, 0};  // of connecting: all else is sent without waiting
  static_cast<void>(::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit));
  const Address address = address_of(process);
  while (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address.name), address.size) != 0) {
    if (errno == ECONNREFUSED) return {};
    if (errno == EAGAIN) throw Error(Errc::exporter_gone, operation, object, no_answer, where);
    if (errno != EINTR) throw Error(Errc::not_supported, operation, object, std::strerror(errno), where);
  }
  if (!is_ours(socket.get())) {
    throw Error(Errc::exporter_gone, operation, object, "the process that answers belongs to another user", where);
  }
  return socket;
}

}  // namespace weir::detail::ipc
