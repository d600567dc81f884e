// Questions to exporters, their answers, and what their end means.
#include "core/ipc/exporter.hpp"

#include <chrono>
#include <map>
#include <vector>

namespace weir::detail::ipc {

namespace {

constexpr const char* has_ended = "the process has ended";
constexpr const char* ended_before = "the process ended before the work that its event stands for was over";

struct Exporters {
  Mutex mutex;
  std::map<Secret, std::weak_ptr<Exporter>> all WEIR_GUARDED_BY(mutex);

  static Exporters& get() {
    static auto& exporters = *new Exporters;
    return exporters;
  }
};

}  // namespace

std::string object_of(const char* what, const Name& name) {
  return std::string(what) + " of process " + std::to_string(name.pid);
}

void TakenRecord::attach(std::unique_ptr<Signal> signal) noexcept {
  std::shared_ptr<const Error> failure;
  {
    const LockGuard guard(mutex_);
    if (!over_) {
      signal_ = std::move(signal);
      return;
    }
    failure = failure_;
  }
  signal->give(std::move(failure), 0);
}

void TakenRecord::wait() {
  UniqueLock lock(mutex_);
  while (!over_) ended_.wait(mutex_);
  if (failure_ != nullptr) throw Error(*failure_);
}

void TakenRecord::end(bool failed, Errc code, const std::string& why) noexcept {
  std::unique_ptr<Signal> signal;
  std::shared_ptr<const Error> failure;
  try {
    if (failed)
      failure = std::make_shared<const Error>(code, question_.operation, question_.object, why, question_.where);
  } catch (const std::bad_alloc&) {
    // There is no memory to say it: the wait ends, which is better than that it does not.
  }
  {
    const LockGuard guard(mutex_);
    if (over_) return;
    over_ = true;
    failure_ = failure;
    signal = std::move(signal_);
    ended_.notify_all();
  }
  if (signal != nullptr) signal->give(std::move(failure), 0);
}

std::shared_ptr<Exporter> Exporter::of(const Name& name, const Question& question) {
  Exporters& exporters = Exporters::get();
  const LockGuard guard(exporters.mutex);
  std::weak_ptr<Exporter>& known = exporters.all[name.process];
  if (auto exporter = known.lock()) {
    const LockGuard state(exporter->state_mutex_);
    if (!exporter->gone_) return exporter;
  }
  File socket = connect_to(name.process, question.operation, question.object, question.where);
  if (socket.get() < 0) {
    throw Error(Errc::exporter_gone, question.operation, question.object, has_ended, question.where);
  }
  auto exporter = std::make_shared<Exporter>(std::move(socket));
  Post::get().add(exporter, question.operation, question.where);
  known = exporter;
  return exporter;
}

Answer Exporter::ask(Message message, const Question& question) {
  {
    const LockGuard guard(state_mutex_);
    message.request = message.request != 0 ? message.request : ++last_;
    asked_[message.request];
  }
  send(message);
  Answer answer = wait_for(message.request, question);
  if (answer.message.kind == MessageKind::refused) {
    throw Error(answer.message.code(), question.operation, question.object, answer.message.text_of(), question.where);
  }
  return answer;
}

Answer Exporter::wait_for(std::uint64_t request, const Question& question) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(answer_seconds);
  UniqueLock lock(state_mutex_);
  const char* why = has_ended;
  while (!asked_[request].answered && !gone_) {
    if (answered_.wait_until(state_mutex_, deadline) == std::cv_status::timeout) {
      why = no_answer;
      break;
    }
  }
  Asked asked = std::move(asked_[request]);
  asked_.erase(request);
  if (asked.answered) return std::move(asked.answer);
  throw Error(Errc::exporter_gone, question.operation, question.object, why, question.where);
}

std::shared_ptr<TakenRecord> Exporter::take(const Secret& object, const Question& question) {
  auto taken = std::make_shared<TakenRecord>(question);
  Message message;
  message.kind = MessageKind::take_event;
  message.object = object;
  {
    // Before it is asked for: its end may be told right behind the answer.
    const LockGuard guard(state_mutex_);
    message.request = ++last_;
    if (!gone_) taken_.emplace(message.request, taken);
  }
  try {
    ask(message, question);
  } catch (...) {
    forget(message.request);
    throw;
  }
  return taken;
}

void Exporter::forget(std::uint64_t request) noexcept {
  const LockGuard guard(state_mutex_);
  taken_.erase(request);
}

void Exporter::close_array(std::uint64_t request) noexcept {
  Message message;
  message.kind = MessageKind::close_array;
  message.request = request;
  send(message);
}

void Exporter::handle(const Message& message, File file) {
  if (message.kind == MessageKind::event_over) {
    std::shared_ptr<TakenRecord> taken;
    {
      const LockGuard guard(state_mutex_);
      const auto found = taken_.find(message.request);
      if (found == taken_.end()) return;
      taken = std::move(found->second);
      taken_.erase(found);
    }
    const bool failed = message.errc != 0;
    taken->end(failed, failed ? message.code() : Errc{}, "its work failed: " + message.text_of());
    return;
  }
  UniqueLock lock(state_mutex_);
  const auto found = asked_.find(message.request);
  if (found == asked_.end() || found->second.answered) {
    lock.unlock();
    // Who asked has given up: the memory is for nobody.
    if (message.kind == MessageKind::array_opened) close_array(message.request);
    return;
  }
  found->second.answered = true;
  found->second.answer = {message, std::move(file)};
  answered_.notify_all();
}

void Exporter::ended() noexcept {
  std::unordered_map<std::uint64_t, std::shared_ptr<TakenRecord>> taken;
  {
    const LockGuard guard(state_mutex_);
    gone_ = true;
    taken.swap(taken_);
    answered_.notify_all();
  }
  for (const auto& [request, record] : taken) record->end(true, Errc::exporter_gone, ended_before);
}

}  // namespace weir::detail::ipc
