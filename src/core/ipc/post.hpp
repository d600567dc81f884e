// The sockets between processes of one host, and the one thread that reads them. It sleeps while nothing arrives.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "core/ipc/wire.hpp"
#include "thread_safety.hpp"

namespace weir::detail::ipc {

/// How long a process that is there may take to answer: it answers at once, whatever it computes.
inline constexpr int answer_seconds = 10;
inline constexpr const char* no_answer = "the process did not answer for 10 seconds: is it stopped?";

/// Owns a descriptor.
class File {
 public:
  File() = default;
  explicit File(int number) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File();
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// One socket to another process. Thread rule: send() and shut() from any thread; what arrives is handled by the post's.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  explicit Connection(File socket) : socket_(std::move(socket)) {}
  virtual ~Connection() = default;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// Never waits: what the other does not read is kept, up to a bound, beyond which the connection ends. `file` stays the
  /// caller's. False if it has ended.
  bool send(const Message& message, int file = -1) noexcept;
  /// The other is told by the end of the connection, and so is this one.
  void shut() noexcept;

 protected:
  virtual void handle(const Message& message, File file) = 0;
  /// Nothing arrives any more.
  virtual void ended() noexcept = 0;

 private:
  friend class Post;
  struct Packet {
    Message message;
    File file;
  };
  static constexpr std::size_t most_kept = 65'536;

  /// Whether it goes on.
  bool receive();
  void send_kept() noexcept;
  bool has_kept();
  void close_socket() noexcept;

  Mutex mutex_;
  File socket_;  ///< written under mutex_, by the post's thread alone
  std::deque<Packet> kept_ WEIR_GUARDED_BY(mutex_);
  bool over_ WEIR_GUARDED_BY(mutex_) = false;
};

/// Of a process. Lives as long as it does.
class Post {
 public:
  static Post& get();
  /// What makes a connection of a socket that another process opened.
  using Accept = std::shared_ptr<Connection> (*)(File socket);

  /// Listens under the name of the secret that this returns, from the first call on.
  /// Throws Error(not_supported) where the system gives no socket or thread.
  const Secret& listen(Accept accept, const char* operation, SourceLocation where);
  /// Whether a handle's process is this one.
  bool is_own(const Secret& process);
  /// Reads it from here on.
  void add(std::shared_ptr<Connection> connection, const char* operation, SourceLocation where);
  void wake() noexcept;

 private:
  Post() = default;
  void start(const char* operation, SourceLocation where) WEIR_NEEDS(mutex_);
  [[noreturn]] void run();
  void serve_once();
  void accept_one();
  std::vector<std::shared_ptr<Connection>> connections();
  void drop(const std::shared_ptr<Connection>& connection) noexcept;
  // The analysis does not follow a lock that is held across a fork.
  void before_fork() WEIR_NOT_ANALYSED { mutex_.lock(); }
  void after_fork() WEIR_NOT_ANALYSED { mutex_.unlock(); }
  void close_in_child() noexcept WEIR_NOT_ANALYSED;

  Mutex mutex_;
  std::vector<std::shared_ptr<Connection>> connections_ WEIR_GUARDED_BY(mutex_);
  bool started_ WEIR_GUARDED_BY(mutex_) = false;
  std::atomic<int> wake_{-1};
  std::atomic<int> listening_{-1};
  Accept accept_ WEIR_GUARDED_BY(mutex_) = nullptr;
  Secret own_ WEIR_GUARDED_BY(mutex_);
  bool full_ = false;  ///< the post's thread: no descriptor for who knocks
};

/// A socket that is connected to a process. Empty: it has ended. Throws exporter_gone for a process of another user, and for one
/// that does not answer.
File connect_to(const Secret& process, const char* operation, const std::string& object, SourceLocation where);

}  // namespace weir::detail::ipc
