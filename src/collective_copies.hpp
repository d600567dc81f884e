// The seam: what a transport does for calls whose other ranks are in other processes, where the host does not reach the arrays.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "collective_call.hpp"

namespace weir::detail {

/// Bytes between pinned memory and a device, or on it.
struct RankCopy {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

/// Its traits say that the host does not reach the arrays. Thread rule: any thread.
class CopyingTransport : public CollectiveTransport {
 public:
  /// Copies beside all streams, for a call that they have come to; `copied` is over when all are. Must not wait.
  virtual void copy(CollectiveCall& call, std::span<const RankCopy> copies,
                    std::shared_ptr<RankMove> copied) noexcept = 0;
  /// Runs what gives a library addresses of the device's memory.
  virtual void within(void (*what)(void*), void* argument) = 0;
};

}  // namespace weir::detail
