// The map of known addresses.
#include "backends/cpu/memory/address_map.hpp"
#include "thread_safety.hpp"

namespace weir::cpu {

AddressMap& address_map() {
  static auto& map = *new AddressMap;
  return map;
}

AddressMap::Answer AddressMap::add(const void* data, const Entry& entry) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  const detail::LockGuard guard(mutex_);
  const auto after = entries_.lower_bound(begin);
  const auto refuse = [&](const Entry& other) {
    return other.registered == entry.registered ? Answer::overlaps : Answer::other_kind;
  };
  if (after != entries_.end() && after->first < begin + entry.bytes) return refuse(after->second);
  if (after != entries_.begin()) {
    const auto before = std::prev(after);
    if (before->first + before->second.bytes > begin) return refuse(before->second);
  }
  entries_.emplace_hint(after, begin, entry);
  return Answer::done;
}

AddressMap::Answer AddressMap::remove(const void* data, bool registered) {
  const detail::LockGuard guard(mutex_);
  const auto found = entries_.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == entries_.end()) return Answer::absent;
  if (found->second.registered != registered) return Answer::other_kind;
  entries_.erase(found);
  return Answer::done;
}

std::optional<PointerInfo> AddressMap::find(const void* data, const Backend* backend) const {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  const detail::SharedGuard guard(mutex_);
  auto after = entries_.upper_bound(address);
  if (after == entries_.begin()) return std::nullopt;
  const auto& [begin, entry] = *std::prev(after);
  if (address - begin >= entry.bytes) return std::nullopt;
  if (entry.backend != nullptr && entry.backend != backend) return std::nullopt;
  PointerInfo info = entry.info;
  info.bytes = entry.bytes - (address - begin);
  return info;
}

}  // namespace weir::cpu
