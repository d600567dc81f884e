// Events between processes: exported, imported, waited for.
#include <memory>
#include <utility>
#include <vector>

#include <weir/ipc.hpp>

#include "core/graphs/capture.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exports.hpp"
#include "core/ipc/imported_event.hpp"
#include "core/observers.hpp"
#include "thread_safety.hpp"

namespace weir {

namespace detail {

namespace {

using ipc::Exporter;
using ipc::Question;
using ipc::TakenRecord;

[[noreturn]] void refuse_backend() {
  throw Error(Errc::not_supported, "weir::import_event", "events of other processes", "they have no device", {});
}

/// What an event needs a backend for, and no more.
class ImportedEvents final : public Backend {
 public:
  std::string_view name() const override { return "another process"; }
  int device_count() override { return 0; }
  DeviceProperties properties(int) override { refuse_backend(); }
  Queue& open_queue(int, const QueueOptions&) override { refuse_backend(); }
  EventState& open_event(int, bool) override { refuse_backend(); }
  PoolState& default_pool(int) override { refuse_backend(); }
  PoolState& open_pool(int, const PoolOptions&) override { refuse_backend(); }
  void synchronize(int, const char*, SourceLocation) override {}
};

class ImportedEvent final : public EventState {
 public:
  /// A recycled one, or a new one.
  static ImportedEvent& open(DeviceState& asked, const ipc::Name& name);

  void close() noexcept override;
  bool done() override;
  bool done_for(SourceLocation where);
  bool passed() override { return false; }
  void synchronize(const char* operation, SourceLocation where) override { take(operation, where)->wait(); }
  void signal_after(std::unique_ptr<Signal>& signal, SourceLocation where) override {
    const auto taken = take("weir::Stream::wait", where);
    taken->attach(std::move(signal));
  }

  std::shared_ptr<TakenRecord> take(const char* operation, SourceLocation where) {
    const Question question = about(operation, where);
    return Exporter::of(name_, question)->take(name_.object, question);
  }
  DeviceState& device_state() const { return *device_state_; }
  std::string description() const { return ipc::object_of("event", name_); }

 private:
  ImportedEvent() = default;
  Question about(const char* operation, SourceLocation where) const { return {operation, description(), where}; }

  ipc::Name name_;
  DeviceState* device_state_ = nullptr;
};

struct FreeEvents {
  Mutex mutex;
  std::vector<ImportedEvent*> all WEIR_GUARDED_BY(mutex);
  std::size_t made WEIR_GUARDED_BY(mutex) = 0;

  static FreeEvents& get() {
    static auto& events = *new FreeEvents;
    return events;
  }
};

ImportedEvent& ImportedEvent::open(DeviceState& asked, const ipc::Name& name) {
  FreeEvents& events = FreeEvents::get();
  const LockGuard guard(events.mutex);
  if (events.all.empty()) {
    events.all.reserve(events.made + 1);  // closing one cannot fail
    events.all.push_back(new ImportedEvent);
    ++events.made;
  }
  ImportedEvent& event = *events.all.back();
  events.all.pop_back();
  event.backend = &imported_events();
  event.device = asked.index;
  event.device_state_ = &asked;
  event.name_ = name;
  return event;
}

void ImportedEvent::close() noexcept {
  FreeEvents& events = FreeEvents::get();
  const LockGuard guard(events.mutex);
  events.all.push_back(this);
}

bool ImportedEvent::done() { return done_for({}); }
bool ImportedEvent::done_for(SourceLocation where) {
  const Question question = about("weir::Event::done", where);
  ipc::Message message;
  message.kind = ipc::MessageKind::ask_event;
  message.object = name_.object;
  return Exporter::of(name_, question)->ask(message, question).message.yes != 0;
}

}  // namespace

Backend& imported_events() {
  static auto& backend = *new ImportedEvents;
  return backend;
}

Device device_of_imported(const EventState& event) {
  return Device(&static_cast<const ImportedEvent&>(event).device_state());
}

bool imported_done(EventState& event, SourceLocation where) {
  return static_cast<ImportedEvent&>(event).done_for(where);
}

void wait_imported(StreamRef stream, EventRef event, SourceLocation where) {
  StreamState& state = *stream.state();
  auto& target = static_cast<ImportedEvent&>(*event.state());
  Command command;
  command.stream = stream.id();
  command.where = where;
  command.op = Wait{&target, event.id()};
  if (state.recorder.load(std::memory_order_acquire) != nullptr) {
    static_cast<void>(state.queue->wait_for_signal(command));  // refuses
  }
  // Asked before the stream's lock is taken, which nobody holds while something is waited for.
  const std::shared_ptr<TakenRecord> taken = target.take("weir::Stream::wait", where);
  const auto enter = [&] {
    if (std::unique_ptr<Signal> signal = state.queue->wait_for_signal(command)) taken->attach(std::move(signal));
  };
  if (watched(commands_watched) || asked()) {
    submit_observed(
        state, command, [](const void* f) { (*static_cast<decltype(&enter)>(f))(); }, &enter);
  } else {
    enter();
  }
}

void refuse_imported_record(const StreamState& stream, SourceLocation where) {
  throw Error(Errc::wrong_device, "weir::Stream::record", describe(stream),
              "the event is of another process: only that process records it; export one of your own for the way back",
              where);
}

}  // namespace detail

EventHandle export_event(EventRef event, SourceLocation where) {
  constexpr const char* operation = "weir::export_event";
  detail::EventState& state = detail::any_state_of(event, operation, where);
  const auto refuse = [&](const char* why) { throw Error(Errc::not_supported, operation, "event", why, where); };
  if (detail::is_imported(state))
    refuse("it was imported: pass its handle on, the exporter serves any number of processes");
  if (state.timed) {
    throw Error(Errc::invalid_value, operation, "event",
                "it is a weir::TimedEvent, and events between processes take no time (R81): make it a weir::Event",
                where);
  }
  if (state.backend->memory_sharing() == nullptr) {
    refuse("it is of a device whose time or memory is its process's own: events of CPUs and GPUs are exported");
  }
  return {handle_of(detail::ipc::ObjectKind::event, detail::ipc::export_object(event, operation, where))};
}

Event import_event(Device device, const EventHandle& handle, SourceLocation where) {
  constexpr const char* operation = "weir::import_event";
  namespace ipc = detail::ipc;
  detail::enter(operation, where);
  const ipc::Name name = name_of(ipc::ObjectKind::event, handle.bytes, operation, where);
  if (ipc::Post::get().is_own(name.process)) {
    throw Error(Errc::invalid_value, operation, "event handle", "it is of this process: use the event itself", where);
  }
  if (device.state()->backend->memory_sharing() == nullptr) {
    throw Error(Errc::not_supported, operation, "device " + device.name(),
                "it has nothing to do with other processes: import into a CPU or a GPU", where);
  }
  static_cast<void>(ipc::Exporter::of(name, {operation, ipc::object_of("event", name), where}));
  const EventRef event = detail::own_event(detail::ImportedEvent::open(*device.state(), name));
  return Event(event.state(), event.id());
}

}  // namespace weir
