// The device's half of a staged copy: a kernel that moves what host threads put into a ring of pinned memory, or puts there
// what they take out.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include <weir/detail/device_code.hpp>

namespace weir::cuda {

/// One slot of the ring: the number of the last chunk that was put into it and taken out of it, counted from one. Each word
/// is written by one side, and has a line of its own.
struct StagedSlot {
  alignas(64) std::uint32_t filled;
  alignas(64) std::uint32_t emptied;
};

/// What the host and the kernel tell each other, in pinned memory.
struct StagedWords {
  enum End : std::uint32_t { runs, done, skipped };
  static constexpr std::uint32_t slots = 64;
  alignas(64) std::uint32_t started;
  alignas(64) std::uint32_t ended;  ///< an End: the kernel touches nothing any more
  StagedSlot slot[slots];
};

/// Chunks of a dense copy between device memory and the ring. `device` is aligned to 16 bytes: the first `skew` bytes there
/// are not part of the copy, but of the first chunk.
struct StagedJob {
  static constexpr std::size_t slot_bytes = 128 * 1024;
  static constexpr std::size_t ring_bytes = StagedWords::slots * slot_bytes;
  static constexpr std::uint32_t most_lanes = 1024;  ///< jobs at once on one device, each with a lane of its own

  char* device;
  char* ring;
  StagedWords* words;
  std::uint64_t bytes;  ///< with the skew
  std::uint32_t skew;
  std::uint32_t chunk_bytes;
  std::uint32_t chunks;
  std::uint32_t lane;
};

enum class StagedWay : std::uint8_t { in, out };

/// On the current device. It ends when the host has done its half, so nothing that the host needs for that may stand behind
/// it: in particular no call of the driver's, which others may be holding up while they wait for this stream (R207, R214).
cudaError_t launch_staged_copy(const StagedJob& job, StagedWay way, const detail::DeviceGuard& guard,
                               cudaStream_t stream);
/// So that no first launch has to wait for running kernels (R66).
cudaError_t load_staged_kernels();

}  // namespace weir::cuda
