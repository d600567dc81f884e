// The process's devices and streams.
#include "core/runtime.hpp"

#include <pthread.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <weir/recorder.hpp>

#include "core/graphs/capture.hpp"
#include "core/observers.hpp"
#include "failure_reports.hpp"
#include "json/text.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

constinit thread_local ThreadState thread_state = ThreadState::unknown;
constinit thread_local RunningCommand running_command{};
constinit thread_local const RunningCommand* running_node = nullptr;
std::atomic<std::uint32_t> hooks{0};

namespace {

std::atomic<bool> in_forked_child{false};

bool flag(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

/// One of ours: 1, or 0, which is what not set means.
bool own_flag(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0' || std::strcmp(value, "0") == 0) return false;
  if (std::strcmp(value, "1") == 0) return true;
  throw Error(Errc::invalid_value, "weir: starting", name, "'" + std::string(value) + "' is neither 0 nor 1", {});
}

WaitMode wait_mode_of_process() {
  const char* value = std::getenv("WEIR_WAIT_MODE");
  const std::string_view said = value == nullptr ? "" : value;
  if (said.empty() || said == "automatic") return WaitMode::automatic;
  if (said == "spin") return WaitMode::spin;
  if (said == "yield") return WaitMode::yield;
  if (said == "block") return WaitMode::block;
  throw Error(Errc::invalid_value, "weir: starting", "WEIR_WAIT_MODE",
              "'" + std::string(said) + "' is none of automatic, spin, yield and block", {});
}

StreamInfo info_of(const StreamState& state, StreamId id) {
  return {id,           state.name,    Device(state.device), state.priority, state.blocking,
          state.legacy, state.wrapped, state.where,          state.shared};
}

DeviceState* new_device(Backend& backend, int index, std::string name, WaitMode wait_mode) {
  auto* device = new DeviceState;
  device->backend = &backend;
  device->index = index;
  device->name = std::move(name);
  device->pool.store(&backend.default_pool(index));
  if (wait_mode != WaitMode::automatic) backend.set_wait_mode(index, wait_mode, {});
  device->wait_mode.store(wait_mode, std::memory_order_relaxed);
  return device;
}

void tell_closed(StreamId id) noexcept {
  if (!watched(Watch::everything)) return;
  tell(Watch::everything, [&](Observer& observer) { observer.closed(id); });
}

constinit thread_local TellingOfStreams* telling_of_streams = nullptr;
constinit thread_local ThreadData* data_of_thread = nullptr;
struct ThreadDataOwner {
  ~ThreadDataOwner() { delete std::exchange(data_of_thread, nullptr); }
};

}  // namespace

TellingOfStreams::TellingOfStreams() noexcept { telling_of_streams = this; }
TellingOfStreams::~TellingOfStreams() {
  for (std::size_t i = 0; i < closed_.size(); ++i) tell_closed(closed_[i]);  // which may close more
  telling_of_streams = nullptr;
}
TellingOfStreams* TellingOfStreams::now() noexcept { return telling_of_streams; }
void TellingOfStreams::close_later(StreamId id) noexcept {
  try {
    closed_.push_back(id);
  } catch (const std::bad_alloc&) {
    // Nobody is told.
  }
}

void check_call(const char* operation, SourceLocation where) { enter(operation, where); }

bool forked() { return in_forked_child.load(std::memory_order_relaxed); }

ThreadData& thread_data() {
  if (data_of_thread == nullptr) {
    data_of_thread = new ThreadData;
    thread_local ThreadDataOwner owner;
    static_cast<void>(owner);
  }
  return *data_of_thread;
}

void enter_slowly(const char* operation, SourceLocation where) {
  if (forked()) {
    throw Error(
        Errc::process_forked, operation, "this process",
        "it is the child of a fork() after Weir was used; its workers and devices are the parent's: use exec, or fork "
        "first",
        where);
  }
  if (thread_state == ThreadState::unknown) {
    thread_state = ThreadState::free;  // now, for tools call Weir, too
    try {
      static const bool started = (start_tools(), true);
      static_cast<void>(started);
    } catch (...) {
      thread_state = ThreadState::unknown;
      throw;
    }
    return;
  }
  const RunningCommand& running = running_node != nullptr ? *running_node : running_command;
  std::string object = running.what;
  if (!running.name.empty()) object.append(" '").append(running.name).append("'");
  if (running.where) {
    object += " enqueued at " + std::string(running.where.file_name()) + ":" + std::to_string(running.where.line());
  }
  throw Error(Errc::not_permitted, operation, object,
              "no Weir call is permitted inside a host function, a kernel or an observer", where);
}

Runtime& Runtime::get() {
  static auto& runtime = *new Runtime;
  return runtime;
}

Runtime::Runtime() {
  prepare_failures();
  if (own_flag("WEIR_LAUNCH_BLOCKING") || flag("CUDA_LAUNCH_BLOCKING")) hooks.fetch_or(launch_blocking);
  const LockGuard guard(naming_mutex_);
  wait_mode_ = wait_mode_of_process();
  auto all = std::make_unique<std::vector<DeviceState*>>();
  for (Backend* backend : backends()) {
    const int count = backend->device_count();
    for (int i = 0; i < count; ++i) {
      std::string name(backend->name());
      if (count > 1 || !backend->on_host()) name.append(":").append(std::to_string(i));
      all->push_back(new_device(*backend, i, std::move(name), wait_mode_));
    }
  }
  device_lists_.push_back(std::move(all));
  devices_.store(device_lists_.back().get(), std::memory_order_release);
  for (DeviceState* device : devices()) open_streams_of(*device);
  pthread_atfork(nullptr, nullptr, [] {
    in_forked_child.store(true, std::memory_order_relaxed);
    thread_state = ThreadState::forked;
  });
}

void Runtime::open_streams_of(DeviceState& device) {
  device.legacy = open_stream(device, {.priority = 0, .blocking = true, .name = "legacy"}, true);
  device.own = open_stream(device, {.priority = 0, .blocking = true, .name = "default"});
  QueueOptions housekeeping;
  housekeeping.kind = QueueOptions::Kind::internal;
  housekeeping.blocking = false;
  housekeeping.label = "housekeeping on " + device.name;
  device.idle = &device.backend->open_queue(device.index, housekeeping);
}

DeviceState& Runtime::open_named(Backend& backend, const std::string& name) {
  const LockGuard guard(naming_mutex_);
  auto [index, its_name] = backend.open_named(name);
  for (DeviceState* device : devices()) {
    if (device->backend == &backend && device->index == index) return *device;
  }
  DeviceState* device = new_device(backend, index, std::string(backend.name()) + ":" + its_name, wait_mode_);
  open_streams_of(*device);
  auto all = std::make_unique<std::vector<DeviceState*>>(devices());
  all->push_back(device);
  device_lists_.push_back(std::move(all));
  devices_.store(device_lists_.back().get(), std::memory_order_release);
  return *device;
}

void Runtime::set_wait_mode(WaitMode mode, SourceLocation where) {
  const LockGuard guard(naming_mutex_);
  for (DeviceState* device : devices()) {
    device->backend->set_wait_mode(device->index, mode, where);
    device->wait_mode.store(mode, std::memory_order_relaxed);
  }
  wait_mode_ = mode;
}

DeviceState* Runtime::first_of(std::string_view backend) const {
  for (DeviceState* device : devices()) {
    if (device->backend->name() == backend) return device;
  }
  return nullptr;
}

DeviceState& Runtime::host() const {
  for (DeviceState* device : devices()) {
    if (device->backend->on_host()) return *device;
  }
  return *devices().back();
}

StreamState& Runtime::new_state() {
  const LockGuard guard(streams_mutex_);
  if (free_streams_.empty()) {
    all_streams_.reserve(all_streams_.size() + 1);
    all_streams_.push_back(new StreamState);
    return *all_streams_.back();
  }
  StreamState* state = free_streams_.back();
  free_streams_.pop_back();
  return *state;
}

StreamRef Runtime::open_stream(DeviceState& device, const StreamOptions& options, bool legacy,
                               std::optional<void*> native, SourceLocation where) {
  const StreamId id = next_stream_.fetch_add(1, std::memory_order_relaxed);
  QueueOptions queue;
  queue.kind = legacy ? QueueOptions::Kind::legacy : QueueOptions::Kind::stream;
  const PriorityRange range = [&] {
    std::call_once(device.properties_read, [&] { device.properties = device.backend->properties(device.index); });
    return device.properties.stream_priorities;
  }();
  queue.priority = std::min(std::max(options.priority, range.greatest), range.least);
  queue.blocking = options.blocking;
  queue.stream = id;
  std::string name = options.name.empty() ? std::to_string(id) : options.name;
  queue.label = "stream '" + json::shown(name) + "' on " + device.name;
  Queue* opened = native ? device.backend->wrap_queue(device.index, *native, queue)
                         : &device.backend->open_queue(device.index, queue);
  if (opened == nullptr) {
    throw Error(Errc::not_supported, "weir::wrap_stream", device.name, "this backend has no native streams", where);
  }
  StreamState& state = [&]() -> StreamState& {
    try {
      return new_state();
    } catch (...) {
      opened->retire();
      throw;
    }
  }();
  const LockGuard guard(told_mutex_);
  const TellingOfStreams telling;
  {
    const LockGuard reusing(state.reuse);
    state.queue = opened;
    state.real = opened;
    state.device = &device;
    state.name = std::move(name);
    state.priority = queue.priority;
    state.blocking = options.blocking;
    state.legacy = legacy;
    state.wrapped = native.has_value();
    state.where = where;
    state.shared = {};
    state.generation.store(0, std::memory_order_relaxed);
    state.id.store(id, std::memory_order_release);
  }
  if (watched(Watch::everything)) {
    tell(Watch::everything, [&](Observer& observer) { observer.opened(info_of(state, id)); });
  }
  return {&state, id};
}

void Runtime::tell_open_streams(Observer& observer) {
  std::vector<StreamState*> all;
  {
    const LockGuard guard(streams_mutex_);
    all = all_streams_;
  }
  for (const StreamState* state : all) {
    const StreamId id = state->id.load(std::memory_order_acquire);
    if (id != 0) tell_one(observer, [&](Observer& one) { one.opened(info_of(*state, id)); });
  }
}

StreamRef Runtime::find_stream(StreamId id) {
  if (id == 0) return {};
  const LockGuard guard(streams_mutex_);
  for (StreamState* state : all_streams_) {
    if (state->id.load(std::memory_order_acquire) == id) return {state, id};
  }
  return {};
}

std::vector<StreamRef> Runtime::blocking_streams(const DeviceState& device) {
  std::vector<StreamRef> found;
  const LockGuard guard(streams_mutex_);
  for (StreamState* state : all_streams_) {
    const StreamId id = state->id.load(std::memory_order_acquire);
    if (id != 0 && state->device == &device && state->blocking) found.push_back({state, id});
  }
  return found;
}

void Runtime::let_tellers_finish() noexcept {
  const auto state_at = [&](std::size_t place) -> const StreamState* {
    const LockGuard guard(streams_mutex_);
    return place < all_streams_.size() ? all_streams_[place] : nullptr;
  };
  // Without the lock: whom it waits for may close a stream. Who uses a stream that is made behind the last sees the new list.
  for (std::size_t i = 0; const StreamState* const state = state_at(i); ++i) state->entering.let_teller_finish();
}

void Runtime::share_stream(StreamState& stream, StreamId id, SourceLocation where) {
  const LockGuard guard(told_mutex_);
  const TellingOfStreams telling;
  if (stream.shared || stream.id.load(std::memory_order_relaxed) != id) return;
  stream.shared = where;
  tell(Watch::everything, [&](Observer& observer) { observer.shared(id, where); });
}

void Runtime::close_stream(StreamRef stream) noexcept {
  if (stream.state() == nullptr || forked()) return;
  StreamState& state = *stream.state();
  StreamId id = stream.id();
  if (TellingOfStreams* telling = TellingOfStreams::now()) {
    // In a callback, which has the lock.
    if (!state.id.compare_exchange_strong(id, 0)) return;
    telling->close_later(stream.id());
  } else {
    const LockGuard guard(told_mutex_);
    const TellingOfStreams here;
    if (!state.id.compare_exchange_strong(id, 0)) return;
    tell_closed(stream.id());
  }
  if (state.recorder.load(std::memory_order_acquire) != nullptr) leave_capture(state);
  state.real->retire();
  const LockGuard guard(streams_mutex_);
  try {
    free_streams_.push_back(&state);
  } catch (const std::bad_alloc&) {
    // The state is not used again.
  }
}

void Runtime::drain_all() noexcept {
  for (DeviceState* device : devices()) device->backend->drain(device->index);
}

std::size_t position_of(const DeviceState& device) {
  const auto& all = Runtime::get().devices();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i] == &device) return i;
  }
  return 0;
}

EventState* captured_state(EventRef event) {
  EventState* state = event.state();
  return state != nullptr && state->id.load(std::memory_order_acquire) == (event.id() | captured_bit) ? state : nullptr;
}

void refuse_event(EventRef event, const char* operation, SourceLocation where) {
  if (captured_state(event) != nullptr) refuse_captured_event(event, operation, where);
  throw Error(Errc::invalid_handle, operation, "event",
              event.state() == nullptr ? "it was moved from or never made" : "it was destroyed", where);
}

void refuse_stream(const char* operation, SourceLocation where) {
  throw Error(Errc::invalid_handle, operation, "stream", "it was moved from, destroyed or never made", where);
}

std::string describe(const StreamState& stream) {
  return "stream '" + json::shown(stream.name) + "' on " + stream.device->name;
}
std::string describe(Device device) { return "device " + device.name(); }

}  // namespace weir::detail
