// Pools, pinning, what an address is.
#include <weir/memory.hpp>

#include <cstdint>
#include <limits>
#include <utility>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir {

using detail::DeviceState;
using detail::enter;
using detail::PoolState;
using detail::state_of;

namespace {

[[noreturn, gnu::noinline]] void refuse_moved_pool(const char* operation, const SourceLocation& where) {
  throw Error(Errc::invalid_handle, operation, "pool", "it was moved from", where);
}
[[noreturn, gnu::noinline]] void refuse_device(const detail::StreamState& stream, const char* operation,
                                               const SourceLocation& where) {
  throw Error(Errc::wrong_device, operation, describe(stream), "the pool is of another device", where);
}

inline PoolState& pool_of(PoolRef pool, const char* operation, const SourceLocation& where) {
  enter(operation, where);
  if (pool.state() == nullptr) [[unlikely]]
    refuse_moved_pool(operation, where);
  return *pool.state();
}

inline void check_stream(const PoolState& pool, StreamRef stream, const char* operation, const SourceLocation& where) {
  const detail::StreamState& state = state_of(stream, operation, where);
  if (state.device->backend != pool.backend || state.device->index != pool.device) [[unlikely]]
    refuse_device(state, operation, where);
}

Command command_of(StreamRef stream, Op op, SourceLocation where) {
  Command command;
  command.where = where;
  command.stream = stream.id();
  command.op = op;
  return command;
}

/// A free that somebody watches. Told before it is done: else the next allocation of the memory could be told first.
void free_observed(PoolState& pool, StreamRef stream, void* data, SourceLocation where) {
  const detail::PoolBlock block = detail::take_block(data);
  Command command = command_of(stream, Free{data, block.bytes, block.buffer, &pool}, where);
  try {
    if (detail::asked()) detail::ask_policies(stream, command);
  } catch (...) {
    if (block.buffer != 0) detail::note_block(data, block);
    throw;
  }
  detail::observe_memory(stream, command);
  try {
    pool.release_unshared(*stream.state()->real, true, stream.id(), data, where);
  } catch (const Error& error) {
    if (block.buffer != 0) detail::note_block(data, block);
    detail::observe_refused(command, error);
    throw;
  }
}

}  // namespace

Device PoolRef::device(SourceLocation where) const {
  const PoolState& pool = pool_of(*this, "weir::Pool::device", where);
  for (DeviceState* device : detail::Runtime::get().devices()) {
    if (device->backend == pool.backend && device->index == pool.device) return Device(device);
  }
  return default_device(where);
}
std::size_t PoolRef::release_threshold(SourceLocation where) const {
  PoolState& pool = pool_of(*this, "weir::Pool::release_threshold", where);
  return pool.release_threshold();
}
void PoolRef::set_release_threshold(std::size_t bytes, SourceLocation where) const {
  PoolState& pool = pool_of(*this, "weir::Pool::set_release_threshold", where);
  pool.set_release_threshold(bytes);
}
void PoolRef::trim(std::size_t keep_bytes, SourceLocation where) const {
  PoolState& pool = pool_of(*this, "weir::Pool::trim", where);
  pool.trim(keep_bytes);
}
PoolStatistics PoolRef::statistics(SourceLocation where) const {
  PoolState& pool = pool_of(*this, "weir::Pool::statistics", where);
  return pool.statistics();
}
void PoolRef::reset_high_marks(SourceLocation where) const {
  PoolState& pool = pool_of(*this, "weir::Pool::reset_high_marks", where);
  pool.reset_high_marks();
}

void* PoolRef::allocate(StreamRef stream, std::size_t bytes, SourceLocation where) const {
  constexpr const char* operation = "weir::Pool::allocate";
  PoolState& pool = pool_of(*this, operation, where);
  check_stream(pool, stream, operation, where);
  if (detail::Recorder* recorder = stream.state()->recorder.load(std::memory_order_acquire)) {
    return detail::allocate_captured(*recorder, pool, bytes, where);
  }
  void* data = pool.allocate(*stream.state()->real, bytes, operation, where);
  if (data != nullptr && detail::watched(Watch::memory)) [[unlikely]] {
    const detail::PoolBlock block{detail::new_buffer(), bytes};
    detail::note_block(data, block);
    Command command = command_of(stream, Alloc{data, bytes, block.buffer, &pool, false, true}, where);
    detail::observe_memory(stream, command);
  }
  return data;
}

void PoolRef::free(StreamRef stream, void* data, SourceLocation where) const {
  constexpr const char* operation = "weir::Pool::free";
  PoolState& pool = pool_of(*this, operation, where);
  detail::StreamState& state = state_of(stream, operation, where);
  if (data == nullptr) return;
  if (state.device->backend != pool.backend) check_stream(pool, stream, operation, where);
  if (detail::free_captured(state, pool, data, operation, where)) return;
  if (detail::watched(Watch::memory) || detail::asked()) [[unlikely]] {
    free_observed(pool, stream, data, where);
  } else {
    pool.release_unshared(*state.real, true, stream.id(), data, where);
  }
}

Pool::Pool(Device device, const PoolOptions& options, SourceLocation where) : PoolRef(nullptr) {
  enter("weir::Pool", where);
  const std::size_t memory = device.properties().memory;
  if (options.max_size > memory) {
    throw Error(Errc::invalid_value, "weir::Pool", "max_size of " + std::to_string(options.max_size) + " bytes",
                "device " + device.name() + " has " + std::to_string(memory), where);
  }
  if (options.shareable && device.state()->backend->memory_sharing() == nullptr) {
    throw Error(Errc::not_supported, "weir::Pool", "device " + device.name(),
                "its memory is not shared with other processes: a shareable pool is of a CPU or a GPU", where);
  }
  state_ = &device.state()->backend->open_pool(device.index(), options);
}
Pool::Pool(Pool&& other) noexcept : PoolRef(std::exchange(other.state_, nullptr)) {}
Pool& Pool::operator=(Pool&& other) noexcept {
  Pool old(std::move(*this));
  state_ = std::exchange(other.state_, nullptr);
  return *this;
}
Pool::~Pool() {
  if (state_ == nullptr || detail::forked()) return;
  // A device whose pool this was goes back to its default one (R103).
  for (DeviceState* device : detail::Runtime::get().devices()) {
    PoolState* self = state_;
    device->pool.compare_exchange_strong(self, &device->backend->default_pool(device->index));
  }
  state_->close();
}

PoolRef default_pool(Device device, SourceLocation where) {
  enter("weir::default_pool", where);
  return PoolRef(&device.state()->backend->default_pool(device.index()));
}
PoolRef get_pool(Device device, SourceLocation where) {
  enter("weir::get_pool", where);
  return PoolRef(device.state()->pool.load(std::memory_order_relaxed));
}

void set_pool(Device device, PoolRef pool, SourceLocation where) {
  const PoolState& state = pool_of(pool, "weir::set_pool", where);
  if (state.backend != device.state()->backend || state.device != device.index()) {
    throw Error(Errc::wrong_device, "weir::set_pool", "device " + device.name(), "the pool is of another device",
                where);
  }
  device.state()->pool.store(pool.state(), std::memory_order_relaxed);
}

void pin(const void* data, std::size_t bytes, SourceLocation where) {
  enter("weir::pin", where);
  if (data == nullptr || bytes == 0) {
    throw Error(Errc::invalid_value, "weir::pin", "host memory",
                data == nullptr ? "the address is null" : "the size is 0", where);
  }
  if (bytes > std::numeric_limits<std::uintptr_t>::max() - reinterpret_cast<std::uintptr_t>(data)) {
    throw Error(Errc::invalid_value, "weir::pin", "host memory", "the range goes past the end of the address space",
                where);
  }
  detail::check_host_wait("weir::pin", "host memory", where);
  detail::host_memory().pin(data, bytes, where);
  detail::note_pin(data, bytes, where);
}

void unpin(const void* data, SourceLocation where) {
  enter("weir::unpin", where);
  detail::check_host_wait("weir::unpin", "host memory", where);
  const auto found = detail::locate(data);
  if (found && found->kind == MemoryKind::pinned) {
    // Copies of this memory may be pending anywhere (R59): the caller may give it back once this returns.
    detail::wait_told({HostWait::Kind::all, -1, 0, 0, where, HostWait::Source::unpin, {}},
                      [] { detail::Runtime::get().drain_all(); });
  }
  detail::host_memory().unpin(data, where);
  detail::forget_pin(data, where);
}

ScopedPin::ScopedPin(const void* data, std::size_t bytes, SourceLocation where) : data_(data), where_(where) {
  pin(data, bytes, where);
}
ScopedPin::~ScopedPin() {
  try {
    unpin(data_, where_);
  } catch (const Error&) {
    // In a forked child, or unpinned by hand before: nothing is left to do.
  }
}

PointerInfo pointer_info(const void* data, SourceLocation where) {
  enter("weir::pointer_info", where);
  return detail::locate(data).value_or(PointerInfo{});
}

}  // namespace weir
