// Devices by name, the default device, synchronisation of devices, peer access.
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>

#include "core/graphs/capture.hpp"
#include "core/observers.hpp"
#include "core/runtime.hpp"

namespace weir {

using detail::DeviceState;
using detail::enter;
using detail::Runtime;

const std::string& Device::name() const { return state_->name; }
std::string_view Device::backend() const { return state_->backend->name(); }
int Device::index() const { return state_->index; }

const DeviceProperties& Device::properties() const {
  std::call_once(state_->properties_read, [this] { state_->properties = state_->backend->properties(state_->index); });
  return state_->properties;
}

namespace {

void wait_for(DeviceState& device, const char* operation, SourceLocation where) {
  enter(operation, where);
  detail::check_device_wait(&device, operation, where);
  detail::wait_told(detail::device_wait(device, where),
                    [&] { device.backend->synchronize(device.index, operation, where); });
}

bool has_names(Backend& backend) { return !backend.named_devices().empty(); }

std::string existing_devices() {
  std::string names;
  const auto add = [&names](const std::string& name) { names += (names.empty() ? "" : ", ") + name; };
  const auto& open = Runtime::get().devices();
  for (const DeviceState* device : open) add(device->name);
  for (Backend* backend : backends()) {
    for (const std::string& one : backend->named_devices()) {
      const std::string name = std::string(backend->name()) + ":" + one;
      if (std::none_of(open.begin(), open.end(), [&](const DeviceState* device) { return device->name == name; }))
        add(name);
    }
  }
  return names;
}

[[noreturn]] void refuse_device(const char* operation, std::string_view name, const std::string& reason,
                                SourceLocation where) {
  throw Error(Errc::unknown_device, operation, "'" + std::string(name) + "'",
              reason + "; devices here: " + existing_devices(), where);
}

/// The device that a name means. Throws unknown_device where the environment says what cannot be.
std::string meant(const char* operation, std::string_view name, SourceLocation where) {
  try {
    return meant_by(name);
  } catch (const std::string& wrong) {
    refuse_device(operation, name, wrong, where);
  }
}

Backend* find_backend(std::string_view name) {
  for (Backend* backend : backends()) {
    if (backend->name() == name) return backend;
  }
  return nullptr;
}

std::string why_no_backend(std::string_view name) {
  if (Backend* found = find_backend(name)) return found->why_absent();
  if (is_left_out(name)) return "the " + std::string(name) + " backend is not built in";
  return "there is no backend of this name";
}

/// Before anybody has a device that keeps its own time.
void watch_for_clock(Backend& backend) {
  detail::DeviceClock* clock = backend.clock();
  static std::once_flag once;
  if (clock == nullptr) return;
  std::call_once(once, [&] {
    detail::device_clock.store(clock, std::memory_order_release);
    attach(*clock, detail::DeviceClock::watch);
  });
}

/// Null if there is none; then `why` says it.
DeviceState* look_for(std::string_view name, std::string& why) {
  const std::size_t colon = name.find(':');
  const std::string_view backend = name.substr(0, colon);
  Backend* named = find_backend(backend);
  if (named != nullptr && has_names(*named)) {
    try {
      DeviceState& found =
          Runtime::get().open_named(*named, std::string(colon == std::string_view::npos ? "" : name.substr(colon + 1)));
      watch_for_clock(*named);
      return &found;
    } catch (const std::string& wrong) {
      why = wrong;
      return nullptr;
    }
  }
  DeviceState* first = Runtime::get().first_of(backend);
  if (first == nullptr) {
    why = why_no_backend(backend);
    return nullptr;
  }
  if (colon == std::string_view::npos) return first;
  const std::string_view number = name.substr(colon + 1);
  unsigned index = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), index);
  if (error != std::errc{} || end != number.data() + number.size()) {
    why = "'" + std::string(number) + "' is not a device number";
    return nullptr;
  }
  for (DeviceState* device : Runtime::get().devices()) {
    if (device->backend == first->backend && static_cast<unsigned>(device->index) == index) return device;
  }
  why = "no such " + std::string(backend) + " device";
  return nullptr;
}

/// `operation` is the call, or the environment variable that the name comes from.
Device find_device(const char* operation, std::string_view name, SourceLocation where) {
  if (const std::string other = meant(operation, name, where); other != name)
    return find_device(operation, other, where);
  std::string why;
  if (DeviceState* found = look_for(name, why)) return Device(found);
  refuse_device(operation, name, why, where);
}

}  // namespace

std::string why_absent(std::string_view name, SourceLocation where) {
  enter("weir::why_absent", where);
  const bool is_backend = name.find(':') == std::string_view::npos;
  if (const std::string other = meant("weir::why_absent", name, where); other != name)
    return is_backend ? std::string() : why_absent(other, where);
  if (is_backend) return why_no_backend(name);
  std::string why;
  look_for(name, why);
  return why;
}

Device device(std::string_view name, SourceLocation where) {
  enter("weir::device", where);
  return find_device("weir::device", name, where);
}

namespace {
void check_mode(WaitMode mode, const char* object, SourceLocation where) {
  if (mode <= WaitMode::block) return;
  throw Error(Errc::invalid_value, "weir::set_wait_mode", object,
              std::to_string(static_cast<int>(mode)) + " is no weir::WaitMode", where);
}
}  // namespace

void set_wait_mode(Device device, WaitMode mode, SourceLocation where) {
  enter("weir::set_wait_mode", where);
  check_mode(mode, device.name().c_str(), where);
  device.state()->backend->set_wait_mode(device.index(), mode, where);
  device.state()->wait_mode.store(mode, std::memory_order_relaxed);
}

void set_wait_mode(WaitMode mode, SourceLocation where) {
  enter("weir::set_wait_mode", where);
  check_mode(mode, "all devices", where);
  Runtime::get().set_wait_mode(mode, where);
}

WaitMode wait_mode(Device device, SourceLocation where) {
  enter("weir::wait_mode", where);
  return device.state()->wait_mode.load(std::memory_order_relaxed);
}

std::chrono::steady_clock::time_point host_now(Device device, SourceLocation where) {
  enter("weir::host_now", where);
  detail::DeviceClock* clock = device.state()->backend->clock();
  return clock == nullptr ? std::chrono::steady_clock::now() : clock->now(device.index(), detail::thread_number());
}

std::vector<Device> devices(SourceLocation where) {
  enter("weir::devices", where);
  std::vector<Device> all;
  for (DeviceState* device : Runtime::get().devices()) {
    if (!has_names(*device->backend)) all.emplace_back(device);
  }
  return all;
}

std::vector<Device> devices(std::string_view backend, SourceLocation where) {
  enter("weir::devices", where);
  std::vector<Device> some;
  if (const std::string other = meant("weir::devices", backend, where); other != backend) {
    some.push_back(find_device("weir::devices", other, where));
    for (DeviceState* device : Runtime::get().devices()) {
      if (device->name.starts_with(other + ":")) some.emplace_back(device);
    }
    return some;
  }
  if (Backend* named = find_backend(backend)) {
    for (const std::string& name : named->named_devices()) {
      try {
        Runtime::get().open_named(*named, name);
      } catch (const std::string& why) {
        refuse_device("weir::devices", std::string(backend) + ":" + name, why, where);
      }
    }
    watch_for_clock(*named);
  }
  for (DeviceState* device : Runtime::get().devices()) {
    if (device->backend->name() == backend) some.emplace_back(device);
  }
  return some;
}

Device default_device(SourceLocation where) {
  enter("weir::default_device", where);
  detail::ThreadData& thread = detail::thread_data();
  if (thread.default_device == nullptr) {
    const char* wanted = std::getenv("WEIR_DEVICE");
    thread.default_device =
        wanted != nullptr && *wanted != '\0'
            ? find_device("weir: the default device, by the environment variable WEIR_DEVICE", wanted, where).state()
            : Runtime::get().devices().front();
  }
  return Device(thread.default_device);
}

void set_default_device(Device device, SourceLocation where) {
  enter("weir::set_default_device", where);
  detail::thread_data().default_device = device.state();
}

ScopedDevice::ScopedDevice(Device device, SourceLocation where)
    : previous_((enter("weir::ScopedDevice", where), default_device(where))) {
  set_default_device(device, where);
}
ScopedDevice::ScopedDevice(std::string_view name, SourceLocation where) : ScopedDevice(device(name, where), where) {}
ScopedDevice::~ScopedDevice() { detail::thread_data().default_device = previous_.state(); }

void synchronize(SourceLocation where) {
  enter("weir::synchronize", where);
  detail::check_device_wait(nullptr, "weir::synchronize", where);
  const auto began = detail::wait_begins();
  const auto wait_for = [&](HostWait wait) {
    wait.began = began;
    return wait;
  };
  const auto& devices = Runtime::get().devices();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceState& device = *devices[i];
    try {
      device.backend->synchronize(device.index, "weir::synchronize", where);
    } catch (const Error& error) {
      // Those behind it were not waited for.
      for (std::size_t before = 0; before < i; ++before)
        detail::tell_wait(wait_for(detail::device_wait(*devices[before], where)));
      detail::tell_failed_wait(wait_for(detail::device_wait(device, where)), error);
      throw;
    }
  }
  detail::tell_wait(wait_for({HostWait::Kind::all, -1, 0, 0, where}));
}
void Device::synchronize(SourceLocation where) const { wait_for(*state_, "weir::Device::synchronize", where); }
void synchronize_device(Device device, SourceLocation where) {
  wait_for(*device.state(), "weir::synchronize_device", where);
}
void synchronize_device(SourceLocation where) {
  enter("weir::synchronize_device", where);
  synchronize_device(default_device(where), where);
}

bool can_access_peer(Device from, Device to, SourceLocation where) {
  enter("weir::can_access_peer", where);
  return from.state()->backend == to.state()->backend &&
         from.state()->backend->can_access_peer(from.index(), to.index());
}
bool peer_access_enabled(Device from, Device to, SourceLocation where) {
  enter("weir::peer_access_enabled", where);
  return from.state()->backend == to.state()->backend && from.state()->backend->peer_access(from.index(), to.index());
}

void enable_peer_access(Device from, Device to, SourceLocation where) {
  enter("weir::enable_peer_access", where);
  const std::string pair = from.name() + " to " + to.name();
  if (!can_access_peer(from, to)) {
    throw Error(Errc::peer_unsupported, "weir::enable_peer_access", pair,
                "these devices cannot reach each other's memory", where);
  }
  if (peer_access_enabled(from, to)) {
    throw Error(Errc::peer_already_enabled, "weir::enable_peer_access", pair, "it is enabled already", where);
  }
  from.state()->backend->set_peer_access(from.index(), to.index(), true);
}

void disable_peer_access(Device from, Device to, SourceLocation where) {
  enter("weir::disable_peer_access", where);
  if (!peer_access_enabled(from, to)) {
    throw Error(Errc::peer_not_enabled, "weir::disable_peer_access", from.name() + " to " + to.name(),
                "it is not enabled", where);
  }
  from.state()->backend->set_peer_access(from.index(), to.index(), false);
}

}  // namespace weir
