// Reading an array back for convenience: behind all who use it, and beside captures of others.
#include <atomic>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <weir/copy.hpp>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "core/graphs/legacy_guard.hpp"
#include "core/memory/foreign_memory.hpp"
#include "core/memory/users.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

namespace {

constexpr const char* operation = "weir::Array::to_host";

/// What the host waits by for one place in a queue: whether it failed.
class Reached final : public Signal {
 public:
  struct State {
    std::atomic<bool> given{false};
    std::shared_ptr<const Error> failure;
  };
  explicit Reached(std::shared_ptr<State> state) : state_(std::move(state)) {}
  void give(std::shared_ptr<const Error> failure, StreamId) noexcept override {
    state_->failure = std::move(failure);
    state_->given.store(true, std::memory_order_release);
    state_->given.notify_all();
  }

 private:
  std::shared_ptr<State> state_;
};

/// Throws the failure that the place has, which stays with its stream.
void wait_for(const QueuePlace& place, SourceLocation where) {
  HostWait wait{HostWait::Kind::stream, place.device->index, place.owner, 0, where};
  wait.backend = place.device->backend->name();
  wait_told(wait, [&] {
    if (!place.queue->is_over(place.owner)) place.queue->drain();
    auto state = std::make_shared<Reached::State>();
    std::unique_ptr<Signal> signal = std::make_unique<Reached>(state);
    place.queue->signal_after(place.owner, signal);
    state->given.wait(false, std::memory_order_acquire);
    if (state->failure != nullptr) throw Error(*state->failure);
  });
}

/// False: a blocking stream of the device captures.
bool read_on_legacy(Storage& storage, const Endpoint& to, const Endpoint& from, SourceLocation where) {
  const StreamRef legacy = storage.device->legacy;
  for (const QueuePlace& place : queues_of(storage)) {
    const StreamRef user = Runtime::get().find_stream(place.owner);
    const bool waited_for = user.state() != nullptr && user.state()->device == storage.device && user.state()->blocking;
    if (!waited_for) wait_for(place, where);
  }
  const LegacyAttempt attempt;
  try {
    copy(legacy, to, from, where);
  } catch (const Error&) {
    if (!attempt.refused()) throw;
    return false;
  }
  return true;
}

/// While blocking streams capture, a command of the legacy stream would void their captures (R125).
void read_beside_captures(Storage& storage, const Endpoint& to, const Endpoint& from, SourceLocation where) {
  std::vector<QueuePlace> places = queues_of(storage);
  for (const StreamRef stream : Runtime::get().blocking_streams(*storage.device)) {
    places.push_back(place_of(stream.state()->real, stream.id(), storage.device));
  }
  for (const QueuePlace& place : places) wait_for(place, where);
  const Stream reader(Device(storage.device), {.blocking = false, .name = "to_host"}, where);
  copy(reader, to, from, where);
}

bool legacy_is_closed(DeviceState& device) {
  if (active_captures.load(std::memory_order_relaxed) == 0) return false;
  const LockGuard guard(captures_lock());
  return device.blocking_captures > 0;
}

}  // namespace

void read_back(StreamRef stream, Storage& storage, const Endpoint& to, const Endpoint& from, SourceLocation where) {
  check_not_freed(storage, operation, where);
  if (stream.state() != nullptr) {
    check_stream_wait(state_of(stream, operation, where), operation, where);
    copy(stream, to, from, where);
    return;
  }
  check_host_wait(operation, "array", where);
  const bool read = !legacy_is_closed(*storage.device) && read_on_legacy(storage, to, from, where);
  if (!read) read_beside_captures(storage, to, from, where);
}

}  // namespace weir::detail
