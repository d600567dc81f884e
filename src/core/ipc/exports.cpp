// Answers on the post's thread: at once, whatever streams do.
#include "core/ipc/exports.hpp"

#include <unistd.h>
#include <algorithm>

#include <cstring>
#include <map>
#include <unordered_map>
#include <vector>

#include "core/checks.hpp"
#include "core/ipc/post.hpp"
#include "exit_gate.hpp"
#include "thread_safety.hpp"

namespace weir::detail::ipc {

std::atomic<std::uint32_t> exported_events{0};

namespace {

struct Exports {
  Mutex mutex;
  std::map<Secret, ExportedArray> arrays WEIR_GUARDED_BY(mutex);
  std::size_t look_again WEIR_GUARDED_BY(mutex) = 64;  ///< so many arrays, and those that are gone are looked for
  std::map<Secret, EventRef> events WEIR_GUARDED_BY(mutex);
  ExitGate gate;  ///< of the post's thread to the backends

  static Exports& get() {
    static auto& exports = *new Exports;
    return exports;
  }
};

/// While the post's thread may call backends, if it may: not once the process's exit handlers run.
class Serving {
 public:
  Serving() noexcept : may_(Exports::get().gate.enter()) {}
  ~Serving() {
    if (may_) Exports::get().gate.leave();
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  explicit operator bool() const noexcept { return may_; }

 private:
  const bool may_;
};

/// One who imports from this process.
class Importer final : public Connection {
 public:
  explicit Importer(File socket) : Connection(std::move(socket)) {}

 private:
  void handle(const Message& message, File file) override;
  void ended() noexcept override;

  void open_array(const Message& asked);
  void close_array(std::uint64_t request) noexcept;
  EventState* exported_event(const Message& asked, const Exports& exports) WEIR_NEEDS(exports.mutex);
  void take_event(const Message& asked);
  void ask_event(const Message& asked);
  void refuse(const Message& asked, Errc code, std::string_view why);

  static constexpr std::size_t most_open = 1 << 20;
  /// By the importer's numbers. The post's thread alone.
  std::unordered_map<std::uint64_t, Storage*> open_;
};

/// Says that the work before a record is over. What it sends was made before: giving it cannot fail for want of memory.
class EventOver final : public Signal {
 public:
  EventOver(std::shared_ptr<Connection> importer, std::uint64_t request) : importer_(std::move(importer)) {
    over_.kind = MessageKind::event_over;
    over_.request = request;
  }
  void give(std::shared_ptr<const Error> failure, StreamId) noexcept override {
    if (failure != nullptr) over_.set_failure(*failure);
    importer_->send(over_);
  }

 private:
  std::shared_ptr<Connection> importer_;
  Message over_;
};

Message answer_to(const Message& asked, MessageKind kind) {
  Message answer;
  answer.kind = kind;
  answer.request = asked.request;
  return answer;
}

std::shared_ptr<Connection> accept(File socket) { return std::make_shared<Importer>(std::move(socket)); }

/// Counted for the importer, or null: it is gone.
Storage* import_from(BufferId buffer) {
  Storage* storage = retain_buffer(buffer);
  if (storage == nullptr) return nullptr;
  storage->imports.fetch_add(1);  // before the look: who frees it looks the other way round
  if (!storage->freed.load()) return storage;
  storage->imports.fetch_sub(1);
  release(storage);
  return nullptr;
}

void Importer::refuse(const Message& asked, Errc code, std::string_view why) {
  Message answer = answer_to(asked, MessageKind::refused);
  answer.set_failure(code, why);
  send(answer);
}

void Importer::handle(const Message& message, File) {
  const Serving serving;
  if (!serving) return shut();  // to the other the process has ended, as it is about to
  switch (message.kind) {
    case MessageKind::open_array: return open_array(message);
    case MessageKind::close_array: return close_array(message.request);
    case MessageKind::take_event: return take_event(message);
    case MessageKind::ask_event: return ask_event(message);
    default: shut();  // it is none of ours
  }
}

void Importer::open_array(const Message& asked) {
  ExportedArray array;
  {
    Exports& exports = Exports::get();
    const LockGuard guard(exports.mutex);
    const auto found = exports.arrays.find(asked.object);
    if (found != exports.arrays.end()) array = found->second;
  }
  if (open_.size() == most_open || open_.count(asked.request) != 0) {
    return refuse(asked, Errc::invalid_value, "it has imported too much already");
  }
  Storage* storage = array.buffer == 0 ? nullptr : import_from(array.buffer);
  if (storage == nullptr) return refuse(asked, Errc::already_freed, "its process has freed it, or destroyed it");
  try {
    void* memory = allocation_of(*storage);
    Backend& backend = *storage->device->backend;
    const SharedMemory shared = backend.memory_sharing()->share(*storage->pool, memory, "weir::export_array", {});
    Message answer = answer_to(asked, MessageKind::array_opened);
    answer.rank = static_cast<std::uint32_t>(array.shape.rank());
    for (std::size_t d = 0; d < array.shape.rank(); ++d) answer.sizes[d] = array.shape[d];
    answer.element_bytes = array.elements.bytes;
    answer.element_type = array.elements.type.code;
    answer.element_bits = array.elements.type.bits;
    answer.begin = static_cast<std::uint64_t>(static_cast<std::byte*>(array.data) - static_cast<std::byte*>(memory));
    answer.offset = shared.offset;
    answer.bytes = shared.bytes;
    answer.pool = shared.pool;
    answer.pointer = shared.pointer;
    const std::string_view name = backend.name();
    std::copy_n(name.begin(), std::min(name.size(), answer.backend.size() - 1), answer.backend.begin());
    open_.emplace(asked.request, storage);
    send(answer, shared.file);
  } catch (const Error& error) {
    drop_import(storage);
    refuse(asked, error.errc(), error.what());
  } catch (...) {
    drop_import(storage);
    throw;
  }
}

void Importer::close_array(std::uint64_t request) noexcept {
  const auto found = open_.find(request);
  if (found == open_.end()) return;
  Storage* storage = found->second;
  open_.erase(found);
  drop_import(storage);
}

/// Null: it is refused. Under the lock, which the event's owner takes before the event goes: nothing may wait there.
EventState* Importer::exported_event(const Message& asked, const Exports& exports) {
  const auto found = exports.events.find(asked.object);
  if (found == exports.events.end()) {
    refuse(asked, Errc::invalid_handle, "its process has destroyed it");
    return nullptr;
  }
  EventState* const state = found->second.state();
  if (state->id.load(std::memory_order_acquire) == found->second.id()) return state;
  refuse(asked, Errc::captured_event, "its last record was captured");
  return nullptr;
}

void Importer::take_event(const Message& asked) {
  std::unique_ptr<Signal> over = std::make_unique<EventOver>(shared_from_this(), asked.request);
  Exports& exports = Exports::get();
  const LockGuard guard(exports.mutex);
  EventState* const state = exported_event(asked, exports);
  if (state == nullptr) return;
  send(answer_to(asked, MessageKind::event_taken));
  try {
    state->signal_after(over, {});
  } catch (const Error& error) {
    over->give(std::make_shared<const Error>(error), 0);
  }
}

void Importer::ask_event(const Message& asked) {
  Exports& exports = Exports::get();
  const LockGuard guard(exports.mutex);
  EventState* const state = exported_event(asked, exports);
  if (state == nullptr) return;
  Message answer = answer_to(asked, MessageKind::event_is);
  answer.yes = state->done() ? 1 : 0;
  send(answer);
}

void Importer::ended() noexcept {
  const Serving serving;
  if (!serving) return open_.clear();  // the memory goes with the process
  while (!open_.empty()) close_array(open_.begin()->first);
}

Name name_for(const char* operation, SourceLocation where) {
  Exports::get().gate.open();
  return {Post::get().listen(accept, operation, where), new_secret(), static_cast<std::int32_t>(getpid())};
}

}  // namespace

Name export_object(const ExportedArray& array, const char* operation, SourceLocation where) {
  const Name name = name_for(operation, where);
  std::vector<Storage*> alive;  // let go without the lock: this may have become their last owner
  {
    Exports& exports = Exports::get();
    const LockGuard guard(exports.mutex);
    if (exports.arrays.size() >= exports.look_again) {
      alive.reserve(exports.arrays.size());
      std::erase_if(exports.arrays, [&](const auto& entry) {
        alive.push_back(retain_buffer(entry.second.buffer));
        return alive.back() == nullptr;
      });
      exports.look_again = 64 + 2 * exports.arrays.size();
    }
    exports.arrays.emplace(name.object, array);
  }
  for (Storage* storage : alive) release(storage);
  return name;
}

Name export_object(EventRef event, const char* operation, SourceLocation where) {
  const Name name = name_for(operation, where);
  Exports& exports = Exports::get();
  const LockGuard guard(exports.mutex);
  for (const auto& [object, known] : exports.events) {
    if (known.id() == event.id()) return {name.process, object, name.pid};
  }
  exports.events.emplace(name.object, event);
  exported_events.fetch_add(1, std::memory_order_release);
  return name;
}

void forget_event_slowly(std::uint64_t id) noexcept {
  Exports& exports = Exports::get();
  const LockGuard guard(exports.mutex);
  const auto gone = std::erase_if(exports.events, [&](const auto& entry) { return entry.second.id() == id; });
  exported_events.fetch_sub(static_cast<std::uint32_t>(gone), std::memory_order_relaxed);
}

}  // namespace weir::detail::ipc
