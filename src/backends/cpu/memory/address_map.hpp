// Which addresses are device memory or pinned: for copies of raw ranges, and for pin and unpin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include <weir/memory.hpp>

#include "thread_safety.hpp"

namespace weir {
class Backend;
}

namespace weir::cpu {

class AddressMap {
 public:
  struct Entry {
    std::size_t bytes;
    PointerInfo info;
    bool registered;                   ///< pinned in place by the user, not allocated
    const Backend* backend = nullptr;  ///< whose device memory it is
  };
  enum class Answer { done, overlaps, absent, other_kind };

  /// Adds a range unless it overlaps one that is there.
  Answer add(const void* data, const Entry& entry);
  /// Removes the range that begins at `data`.
  Answer remove(const void* data, bool registered);
  /// Device memory only if it is the backend's.
  std::optional<PointerInfo> find(const void* data, const Backend* backend) const;

 private:
  mutable detail::SharedMutex mutex_;
  std::map<std::uintptr_t, Entry> entries_ WEIR_GUARDED_BY(mutex_);  ///< by begin; never overlapping
};

AddressMap& address_map();

}  // namespace weir::cpu
