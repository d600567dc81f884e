// Devices: what runs commands. A Device is a cheap handle; devices live as long as the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <weir/detail/durations.hpp>
#include <weir/source_location.hpp>

namespace weir {

namespace detail {
struct DeviceState;
/// A number in the place of a device's name, as other libraries take it. (A literal 0 would also convert to a null pointer.)
template <class N>
concept device_number = std::is_arithmetic_v<N> || std::is_null_pointer_v<N>;
template <class N>
concept device_name = std::is_convertible_v<const N&, std::string_view>;
}  // namespace detail

/// Lower numbers are higher priorities, as in CUDA (R13).
struct PriorityRange {
  int least = 0;
  int greatest = 0;
};

struct ComputeCapability {
  int major = 0;
  int minor = 0;
  friend constexpr bool operator==(const ComputeCapability&, const ComputeCapability&) = default;
};

/// Facts about a device, read once (C5). Sizes in bytes.
struct DeviceProperties {
  std::string name;                      ///< "AMD EPYC ...", "NVIDIA H200"
  std::string backend;                   ///< "cpu", "cuda", "sim"
  ComputeCapability compute_capability;  ///< 0.0 where there is none
  int multiprocessors = 0;               ///< on the CPU: worker threads of this device
  std::size_t memory = 0;                ///< that all allocations on the device may use together
  bool concurrent_kernels = false;       ///< kernels of different streams overlap
  int async_engine_count = 0;            ///< 1: a copy overlaps kernels; 2: opposite copies overlap each other too (C6)
  int max_resident_kernels = 0;          ///< kernels that can be running at one time
  PriorityRange stream_priorities;       ///< {least, greatest}
  std::size_t max_threads_per_block = 0;
  std::size_t max_shared_bytes_per_block = 0;
  std::size_t cache_bytes = 0;  ///< last-level cache
  bool memory_pools = false;    ///< stream-ordered allocation
  bool kernels_reach_pageable_memory = false;
};

/// Facts about a kernel on a device (kernel_info.hpp). 0 where a device has no such thing.
struct KernelFacts {
  int registers = 0;             ///< of each thread; 0 on the CPU and on simulated devices
  std::size_t local_bytes = 0;   ///< of each thread, in device memory, for what does not fit into registers; 0 there
  std::size_t shared_bytes = 0;  ///< of each block, beyond what its launch asks for; 0 there
  std::size_t max_shared_bytes = 0;  ///< that a launch over blocks may ask for
  std::size_t max_threads = 0;       ///< of a block
  std::size_t usual_threads =
      0;  ///< of a block, as weir::launch chooses it; 0: the kernel takes a Block, or runs on the CPU
  std::size_t threads_per_multiprocessor = 0;  ///< resident at once, over all blocks; 0 on the CPU
};

/// How a host thread waits in synchronize() of a stream, an event or a device, and in calls that return when their work is done.
enum class WaitMode : std::uint8_t {
  automatic,  ///< on the CPU: polls for about 20 microseconds, then sleeps. On a GPU: as the driver chooses, or the program has set
  spin,   ///< polls: returns soonest, and occupies a core
  yield,  ///< polls, and yields the core between polls
  block   ///< sleeps: occupies no core, and returns some microseconds later
};

/// A device by value; compares equal to itself. Thread rule: any thread.
class Device {
 public:
  /// "cpu", "cpu:1", "cuda:0", "sim:h200"
  const std::string& name() const;
  std::string_view backend() const;
  /// The number among its backend's devices.
  int index() const;
  const DeviceProperties& properties() const;

  /// Waits for all earlier work of this device's Weir streams, from every host thread (W13, R8), including wrapped streams and the
  /// legacy stream; not for other devices (R194), nor for other libraries' streams that were never wrapped. Throws the first
  /// failure among that work that was not reported yet.
  void synchronize(SourceLocation where = SourceLocation::current()) const;

  friend bool operator==(Device a, Device b) { return a.state_ == b.state_; }
  /// Does not compile, and says how to find a device.
  template <class N>
    requires(detail::device_number<N> || detail::device_name<N>)
  Device(const N&) : state_(nullptr) {
    static_assert(!std::is_same_v<N, N>,
                  "weir::device finds a weir::Device by its name: weir::device(\"cpu\"), weir::device(\"cuda:1\")");
  }

  /// For the library.
  explicit Device(detail::DeviceState* state) : state_(state) {}
  detail::DeviceState* state() const { return state_; }

 private:
  detail::DeviceState* state_;
};

/// The device of that name: "cpu", "cpu:1", "cuda" (the first one), "cuda:1", ... If WEIR_AS_CUDA names a simulated device, such as
/// "sim:h200", "cuda" means that one, "cuda:1" the second of its kind, and so on.
/// Throws Error(unknown_device) naming what exists, and why a backend that was asked for is absent.
Device device(std::string_view name, SourceLocation where = SourceLocation::current());
template <detail::device_number N>
Device device(const N&, SourceLocation = SourceLocation::current()) {
  static_assert(!std::is_same_v<N, N>, "weir::device takes a name: weir::device(\"cpu\"), weir::device(\"cuda:1\")");
  return Device(static_cast<detail::DeviceState*>(nullptr));
}

/// The devices of this process except simulated ones, or those of one backend ("cpu", "cuda", "sim"); empty if that backend has
/// none.
std::vector<Device> devices(SourceLocation where = SourceLocation::current());
std::vector<Device> devices(std::string_view backend, SourceLocation where = SourceLocation::current());

/// The calling thread's time, to compare with a device's: the steady clock; for a simulated device (sim:h200) a virtual clock, which
/// only Weir's calls and sim::host_work() advance. The difference of two readings is the time between them. Any thread.
std::chrono::steady_clock::time_point host_now(Device device, SourceLocation where = SourceLocation::current());

/// Why there is no device of a backend ("cuda"), or of that name ("cuda:1", "sim:card.json"), here: "no NVIDIA driver", "not built
/// in", what is wrong with the file; empty if there is one. Of a simulated device it is made, as by device().
std::string why_absent(std::string_view name, SourceLocation where = SourceLocation::current());

/// The device of calls that name neither a device nor a stream, per host thread (R196). Initially the one that WEIR_DEVICE
/// names, else "cuda:0" if there is one, else "cpu". Throws unknown_device if WEIR_DEVICE names none that exists.
Device default_device(SourceLocation where = SourceLocation::current());
void set_default_device(Device device, SourceLocation where = SourceLocation::current());

/// Makes a device the default one for a block, on this thread; restores the previous one, on exceptions too.
class ScopedDevice {
 public:
  explicit ScopedDevice(Device device, SourceLocation where = SourceLocation::current());
  explicit ScopedDevice(std::string_view name, SourceLocation where = SourceLocation::current());
  template <detail::device_name Name>
  explicit ScopedDevice(const Name& name, SourceLocation where = SourceLocation::current())
      : ScopedDevice(std::string_view(name), where) {}
  ~ScopedDevice();
  ScopedDevice(const ScopedDevice&) = delete;
  ScopedDevice& operator=(const ScopedDevice&) = delete;

 private:
  Device previous_;
};

/// Waits for all devices (W13), as Device::synchronize() does. Throws the first failure that was not reported yet.
void synchronize(SourceLocation where = SourceLocation::current());
template <class T>
  requires requires(const T& one) { one.synchronize(); }
void synchronize(const T&) {
  static_assert(!std::is_same_v<T, T>,
                "weir::synchronize() waits for all devices; for one thing there are weir::synchronize_stream(stream), "
                "synchronize_event(event) and synchronize_device(device)");
}
void synchronize_device(Device device, SourceLocation where = SourceLocation::current());
/// The default device.
void synchronize_device(SourceLocation where = SourceLocation::current());

/// Sets how host threads wait for a device, for waits that begin later. On the CPU a waiting thread executes the work that it
/// waits for, in every mode; the mode applies while there is none to execute. Initially `automatic`, or what WEIR_WAIT_MODE says:
/// automatic, spin, yield or block. On a GPU it sets the device's CUDA schedule flag, for the whole process.
void set_wait_mode(Device device, WaitMode mode, SourceLocation where = SourceLocation::current());
/// The same for all devices of the process, including simulated ones that are not open yet.
void set_wait_mode(WaitMode mode, SourceLocation where = SourceLocation::current());
WaitMode wait_mode(Device device, SourceLocation where = SourceLocation::current());

/// Lets kernels of device `from` access memory of device `to`, and copies between them go directly. One direction, as in CUDA.
/// Throws peer_already_enabled, peer_unsupported (also for a device and itself) (R191).
void enable_peer_access(Device from, Device to, SourceLocation where = SourceLocation::current());
/// Throws peer_not_enabled.
void disable_peer_access(Device from, Device to, SourceLocation where = SourceLocation::current());
bool can_access_peer(Device from, Device to, SourceLocation where = SourceLocation::current());
bool peer_access_enabled(Device from, Device to, SourceLocation where = SourceLocation::current());

}  // namespace weir
