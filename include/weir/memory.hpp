// Memory: kinds, stream-ordered pools, pinning of host memory.
#pragma once

#include <cstddef>
#include <limits>
#include <string>

#include <weir/detail/range_concepts.hpp>
#include <weir/device.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

/// Tags for arrays in host memory: `empty<float>(weir::pinned, n)`. Pinned memory is what asynchronous copies need (W6).
struct HostMemory {};
struct PinnedMemory {};
inline constexpr HostMemory host;
inline constexpr PinnedMemory pinned;

struct PoolOptions {
  std::size_t release_threshold =
      0;                     ///< bytes kept when the device synchronises; 0 gives everything unused back (R101)
  std::size_t max_size = 0;  ///< limit of the pool's memory; 0: the device's
  std::string name = {};
  /// Its arrays can be exported to other processes of this host (weir/ipc.hpp). Throws not_supported on simulated devices.
  bool shareable = false;
};

struct PoolStatistics {
  std::size_t reserved = 0;       ///< bytes the pool holds from the system
  std::size_t reserved_high = 0;  ///< the most so far
  std::size_t used = 0;           ///< bytes handed out, at the moment of the host's calls
  std::size_t used_high = 0;
};

/// A non-owning handle of a pool.
class PoolRef {
 public:
  /// The device whose memory it hands out.
  Device device(SourceLocation where = SourceLocation::current()) const;
  /// Bytes that the pool keeps when memory is freed; memory beyond that goes back to the system.
  std::size_t release_threshold(SourceLocation where = SourceLocation::current()) const;
  void set_release_threshold(std::size_t bytes, SourceLocation where = SourceLocation::current()) const;
  /// Gives unused memory beyond `keep_bytes` back to the system. Memory whose free is still pending stays.
  void trim(std::size_t keep_bytes = 0, SourceLocation where = SourceLocation::current()) const;
  PoolStatistics statistics(SourceLocation where = SourceLocation::current()) const;
  void reset_high_marks(SourceLocation where = SourceLocation::current()) const;

  /// Memory that belongs to `stream` from here on (W18): other streams must wait for it first. Never waits for the stream
  /// (R94). Aligned to 256 bytes; null for 0 bytes (R99). Throws out_of_memory (R105), wrong_device.
  void* allocate(StreamRef stream, std::size_t bytes, SourceLocation where = SourceLocation::current()) const;
  /// Frees the memory in the order of `stream`, which need not be the stream that allocated it (R95). Null is allowed.
  /// Throws already_freed and invalid_value as R100.
  void free(StreamRef stream, void* data, SourceLocation where = SourceLocation::current()) const;

  friend bool operator==(PoolRef a, PoolRef b) { return a.state_ == b.state_; }

  /// For the library.
  explicit PoolRef(detail::PoolState* state) : state_(state) {}
  detail::PoolState* state() const { return state_; }

 protected:
  detail::PoolState* state_;
};

/// Owns a pool. Arrays outlive it: destroying a pool with live allocations keeps them usable (R103).
class Pool : public PoolRef {
 public:
  explicit Pool(Device device, const PoolOptions& options = {}, SourceLocation where = SourceLocation::current());
  template <std::integral Bytes>
  Pool(Device, Bytes) = delete;  // the options of a weir::Pool have names: weir::Pool(device, {.max_size = bytes})
  Pool(const Pool&) = delete;    // a pool has one owner: std::move(pool), or weir::PoolRef ref = pool
  Pool(Pool&& other) noexcept;
  Pool& operator=(Pool&& other) noexcept;
  ~Pool();
};

/// The pool that a device starts with. Its release threshold is unlimited, unlike CUDA's (docs/decisions/0006-default-pool.md).
PoolRef default_pool(Device device, SourceLocation where = SourceLocation::current());
/// The pool that arrays of a device come from: the default one until set_pool.
PoolRef get_pool(Device device, SourceLocation where = SourceLocation::current());
void set_pool(Device device, PoolRef pool, SourceLocation where = SourceLocation::current());

/// Pins and unpins existing host memory (N2, R106, R107): copies from and to it are then asynchronous (R54).
/// Throws already_pinned for a range that overlaps a pinned one, not_pinned for what was never pinned, invalid_value for
/// null, 0 bytes, or memory that Weir allocated pinned.
void pin(const void* data, std::size_t bytes, SourceLocation where = SourceLocation::current());
void unpin(const void* data, SourceLocation where = SourceLocation::current());

/// Pins a range for a block. Unpinning waits for pending copies of that memory.
class ScopedPin {
 public:
  template <std::ranges::contiguous_range R>
    requires std::ranges::sized_range<R>
  explicit ScopedPin(R& range, SourceLocation where = SourceLocation::current())
      : ScopedPin(std::ranges::data(range), std::ranges::size(range) * sizeof(std::ranges::range_value_t<R>), where) {}
  ScopedPin(const void* data, std::size_t bytes, SourceLocation where = SourceLocation::current());
  explicit ScopedPin(const void*) = delete;  // a pointer does not say how many bytes: weir::ScopedPin(pointer, bytes)
  ~ScopedPin();
  ScopedPin(const ScopedPin&) = delete;
  ScopedPin& operator=(const ScopedPin&) = delete;

 private:
  const void* data_;
  SourceLocation where_;
};

/// What an address points into: a device allocation, pinned or pageable memory (R108).
struct PointerInfo {
  MemoryKind kind = MemoryKind::pageable;
  int device = -1;        ///< index within the backend, for device memory
  std::size_t bytes = 0;  ///< from the address to the end of its allocation or pinned range; 0 for pageable memory
};
/// What `data` points into. Never waits.
PointerInfo pointer_info(const void* data, SourceLocation where = SourceLocation::current());

}  // namespace weir
