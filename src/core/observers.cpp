// Observers of commands.
#include "core/observers.hpp"

#include <algorithm>
#include <vector>

#include "core/runtime.hpp"
#include "thread_safety.hpp"

namespace weir {

namespace detail {

namespace {

struct Observers {
  Mutex order;  ///< commands enter their streams in the order in which observers saw them
  SharedMutex mutex;
  std::vector<Observer*> all WEIR_GUARDED_BY(mutex);
  std::atomic<CommandId> next_command{1};
};

Observers& observers() {
  static auto& instance = *new Observers;
  return instance;
}

/// An observer's callback may not call Weir; nor does what it throws reach the program.
class CallbackScope {
 public:
  CallbackScope() : state_(thread_state), running_(running_command) {
    thread_state = ThreadState::running;
    running_command = {"an observer", {}, {}};
  }
  ~CallbackScope() {
    thread_state = state_;
    running_command = running_;
  }

 private:
  ThreadState state_;
  RunningCommand running_;
};

template <class F>
void tell(F&& f) noexcept {
  Observers& o = observers();
  const CallbackScope scope;
  const SharedGuard guard(o.mutex);
  for (Observer* observer : o.all) {
    try {
      f(*observer);
    } catch (...) {
      // Documented: an observer must not throw. The program goes on.
    }
  }
}

bool may_block(const Command& command) {
  const auto* copy = std::get_if<Copy>(&command.op);
  const auto* fill = std::get_if<Fill>(&command.op);
  return (copy && (copy->to_kind == MemoryKind::pageable || copy->from_kind == MemoryKind::pageable)) ||
         (fill && fill->kind == MemoryKind::pageable);
}

}  // namespace

void submit_observed(Queue& queue, Command& command) {
  Observers& o = observers();
  UniqueLock guard(o.order);
  command.id = o.next_command.fetch_add(1, std::memory_order_relaxed);
  tell([&](Observer& observer) { observer.submitted(command); });
  if (may_block(command)) guard.unlock();  // others go on while this call waits
  queue.submit(command);
}

void submit_observed(Command& command, const std::function<void()>& submit) {
  Observers& o = observers();
  const LockGuard guard(o.order);
  command.id = o.next_command.fetch_add(1, std::memory_order_relaxed);
  tell([&](Observer& observer) { observer.submitted(command); });
  submit();
}

void observe(Command& command) {
  Observers& o = observers();
  const LockGuard guard(o.order);
  command.id = o.next_command.fetch_add(1, std::memory_order_relaxed);
  tell([&](Observer& observer) { observer.submitted(command); });
}

void observe_waited(const HostWait& wait) {
  const LockGuard guard(observers().order);
  tell([&](Observer& observer) { observer.waited(wait); });
}
void observe_opened(const StreamInfo& stream) {
  const LockGuard guard(observers().order);
  tell([&](Observer& observer) { observer.opened(stream); });
}
void observe_closed(StreamId stream) {
  const LockGuard guard(observers().order);
  tell([&](Observer& observer) { observer.closed(stream); });
}

void report_ran(CommandId command, StreamId stream, Span span) noexcept {
  tell([&](Observer& observer) { observer.ran(command, stream, span); });
}

}  // namespace detail

void attach(Observer& observer) {
  detail::enter("weir::attach", SourceLocation{});
  detail::Runtime::get();
  detail::Observers& o = detail::observers();
  const detail::LockGuard guard(o.mutex);
  o.all.push_back(&observer);
  detail::hooks.fetch_or(detail::observed, std::memory_order_seq_cst);
}

void detach(Observer& observer) {
  detail::enter("weir::detach", SourceLocation{});
  detail::Observers& o = detail::observers();
  const detail::LockGuard guard(o.mutex);
  std::erase(o.all, &observer);
  if (o.all.empty()) detail::hooks.fetch_and(~std::uint32_t{detail::observed}, std::memory_order_seq_cst);
}

}  // namespace weir
