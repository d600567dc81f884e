// A process that exports, as one who imports from it sees it.
#pragma once

#include <condition_variable>
#include <memory>
#include <string>
#include <unordered_map>

#include "backend.hpp"
#include "core/ipc/post.hpp"
#include "thread_safety.hpp"

namespace weir::detail::ipc {

/// What is asked, and of what: for errors.
struct Question {
  const char* operation;
  std::string object;  ///< "event of process 1234"
  SourceLocation where;
};

/// The last record of another process's event, taken. Thread rule: any thread.
class TakenRecord {
 public:
  explicit TakenRecord(Question question) : question_(std::move(question)) {}
  /// Gives the signal once the work is over: now, if it is.
  void attach(std::unique_ptr<Signal> signal) noexcept;
  /// Waits until it is, and throws its failure.
  void wait();
  /// Once. `failed`: by this code, for this reason.
  void end(bool failed, Errc code, const std::string& why) noexcept;

 private:
  const Question question_;
  Mutex mutex_;
  std::condition_variable_any ended_;
  bool over_ WEIR_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const Error> failure_ WEIR_GUARDED_BY(mutex_);
  std::unique_ptr<Signal> signal_ WEIR_GUARDED_BY(mutex_);
};

struct Answer {
  Message message;
  File file;
};

class Exporter final : public Connection {
 public:
  explicit Exporter(File socket) : Connection(std::move(socket)) {}
  /// The connection to a process, made where there is none. Throws exporter_gone.
  static std::shared_ptr<Exporter> of(const Name& name, const Question& question);

  /// Asks, and waits for the answer. Throws what it was refused by, and exporter_gone.
  Answer ask(Message message, const Question& question);
  /// The last record of an event, as it is now.
  std::shared_ptr<TakenRecord> take(const Secret& object, const Question& question);
  void close_array(std::uint64_t request) noexcept;

 private:
  struct Asked {
    bool answered = false;
    Answer answer;
  };

  void handle(const Message& message, File file) override;
  void ended() noexcept override;
  Answer wait_for(std::uint64_t request, const Question& question);
  void forget(std::uint64_t request) noexcept;

  Mutex state_mutex_;
  std::condition_variable_any answered_;
  std::uint64_t last_ WEIR_GUARDED_BY(state_mutex_) = 0;
  bool gone_ WEIR_GUARDED_BY(state_mutex_) = false;
  std::unordered_map<std::uint64_t, Asked> asked_ WEIR_GUARDED_BY(state_mutex_);
  std::unordered_map<std::uint64_t, std::shared_ptr<TakenRecord>> taken_ WEIR_GUARDED_BY(state_mutex_);
};

/// "array of process 1234"
std::string object_of(const char* what, const Name& name);

}  // namespace weir::detail::ipc
