// What tests ask of the fake driver, and tell it. It stands in for CUDA's runtime and driver: threads of the host are its
// devices, and it keeps the rules R1 to R215 as far as the CUDA backend meets them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

struct CUstream_st;

namespace fake_cuda {

/// How often a call was made: `calls("cudaStreamCreateWithFlags")`.
std::uint64_t calls(const std::string& name);
/// How often this thread made it: those of the library's own threads are not counted.
std::uint64_t calls_here(const std::string& name);
/// How many of those have returned: what they submit is in its stream.
std::uint64_t returned_calls(const std::string& name);
/// The n-th call from here on (1: the next) answers with the cudaError_t, and does nothing. The last one of each name holds.
void fail_call(const std::string& name, std::uint64_t n, int error);
/// Forgets what fail_call() was told.
void fail_nothing();

/// Nothing of a device's streams, or of one stream, begins until it goes on.
class Pause {
 public:
  explicit Pause(int device);
  Pause(int device, CUstream_st* stream);
  ~Pause();
  Pause(const Pause&) = delete;
  Pause& operator=(const Pause&) = delete;

 private:
  int device_;
  CUstream_st* stream_;
};

/// Calls of this name wait inside the driver, before they do anything.
class HoldCalls {
 public:
  explicit HoldCalls(const std::string& name);
  ~HoldCalls();
  HoldCalls(const HoldCalls&) = delete;
  HoldCalls& operator=(const HoldCalls&) = delete;
  /// Whether a call of this thread waits.
  bool holds(std::thread::id thread) const;

 private:
  std::string name_;
};

/// While it lives, a device does not reach another one's memory.
class OutOfReach {
 public:
  OutOfReach(int device, int peer);
  ~OutOfReach();
  OutOfReach(const OutOfReach&) = delete;
  OutOfReach& operator=(const OutOfReach&) = delete;

 private:
  int device_;
  int peer_;
};

/// What would crash in the driver, as one sentence each: "R211: cudaStreamQuery of stream 7, which another thread
/// captures". Such a call ends the process, but for calls while violations are recorded.
class RecordViolations {
 public:
  RecordViolations();
  ~RecordViolations();
  RecordViolations(const RecordViolations&) = delete;
  RecordViolations& operator=(const RecordViolations&) = delete;
  std::vector<std::string> all() const;
};

/// What lives: for checks of leaks.
struct Outstanding {
  std::size_t device_blocks = 0;  ///< of pools and cudaMalloc; a block in a free that is pending counts
  std::size_t device_bytes = 0;
  std::size_t pinned_blocks = 0;  ///< allocated, not registered
  std::size_t registered = 0;
  std::size_t streams = 0;
  std::size_t events = 0;
  std::size_t graphs = 0;  ///< without bodies and children of others
  std::size_t instances = 0;
  std::size_t commands = 0;  ///< submitted and not done
};
Outstanding outstanding();

/// Waits, on the host, for everything that is pending, as far as nothing holds it; no call of the driver's.
void settle();

/// Host threads that wait for room in a stream (R3).
std::size_t waiting_for_room();
/// In the destruction of an instance (R215).
std::size_t waiting_to_destroy();

/// Kernels of Weir's of more than 4,096 threads that heeded a word in the host's memory: of a GPU's warps each would read it by
/// itself, one after the other.
std::uint64_t distant_guards();

/// Every later call answers with this error, as after a fault of a kernel (R171). For processes that end afterwards.
void break_device(int error);

}  // namespace fake_cuda
