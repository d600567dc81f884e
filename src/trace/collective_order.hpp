// Which streams are told to come behind others because of a collective.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace weir::trace {

/// When all parts of a collective are there, each of its streams is told to come behind the others.
class CollectiveOrder {
 public:
  void add(std::uint32_t collective, std::uint32_t stream) {
    members_[collective].push_back(stream);
    std::vector<std::uint32_t>& parts = parts_[stream];
    constexpr std::size_t most = 256;  // nothing is told of those that failed
    if (parts.size() == most) parts.erase(parts.begin());
    parts.push_back(collective);
  }
  /// Whether it is that when this stream comes behind those. Once for each part.
  bool takes(std::uint32_t stream, std::span<const std::uint32_t> others) {
    std::vector<std::uint32_t>& parts = parts_[stream];
    const auto part = std::find_if(parts.begin(), parts.end(), [&](std::uint32_t collective) {
      const std::vector<std::uint32_t>& members = members_[collective];
      return std::all_of(others.begin(), others.end(), [&](std::uint32_t other) {
        return std::find(members.begin(), members.end(), other) != members.end();
      });
    });
    if (part == parts.end()) return false;
    parts.erase(part);
    return true;
  }

 private:
  std::map<std::uint32_t, std::vector<std::uint32_t>> members_;  ///< of collectives: streams
  std::map<std::uint32_t, std::vector<std::uint32_t>> parts_;    ///< of streams: collectives whose order was not told
};

}  // namespace weir::trace
