// POSIX shared memory: the file in which a shareable pool has its blocks, and the memory of other processes' pools.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend.hpp"

namespace weir::cpu {

/// A file without a name. It only grows: what is given back leaves a hole, which holds no memory. Thread rule: one at a time,
/// but for number().
class SharedFile {
 public:
  static constexpr std::size_t page = 4096;

  SharedFile() = default;
  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  /// Whole pages at a place of their own, which `offset` is. Null: there is no memory, or no descriptor.
  void* take(std::size_t bytes, std::uint64_t& offset);
  void give(void* data, std::size_t bytes, std::uint64_t offset) noexcept;
  /// Its descriptor, once something was taken.
  int number() const { return number_; }

 private:
  int number_ = -1;
  std::uint64_t end_ = 0;
};

/// MemorySharing::map() and unmap() for devices that are the host, of this backend.
void* map_shared(const Backend& backend, int device, const detail::MemorySharing::Foreign& foreign);
void unmap_shared(void* data, const detail::SharedMemory& memory) noexcept;

}  // namespace weir::cpu
