// Names in a recording that is being made: valid, and unique among their kind.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <weir/recording.hpp>

namespace weir::recorded {

class Names {
 public:
  using Taken = std::unordered_set<std::string>;

  explicit Names(Recording& recording) : recording_(recording) {}

  Name text(std::string_view text) { return recording_.intern(text); }
  /// Of a source file, whose name stays where it is.
  Name file(const char* name) {
    const auto [at, is_new] = files_.emplace(name, none);
    if (is_new) at->second = text(name);
    return at->second;
  }
  /// Made of what the program calls it, as far as a scenario may.
  Name unique(Taken& taken, std::string_view wanted, const char* otherwise);

  Taken streams;
  Taken buffers;

 private:
  Recording& recording_;
  std::unordered_map<const char*, Name> files_;
};

}  // namespace weir::recorded
