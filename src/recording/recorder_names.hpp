// Names of what a running program does, for its recording: valid, and unique among their kind.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include <weir/recording.hpp>

#include "recording/sink.hpp"

namespace weir::recorded {

class Names {
 public:
  using Taken = std::unordered_set<std::string>;

  explicit Names(Sink& sink) : sink_(sink) {}

  Name text(std::string_view text) { return sink_.intern(text); }
  /// Of a source file, whose name stays where it is.
  Name file(const char* name) {
    const auto [at, is_new] = files_.emplace(name, none);
    if (is_new) at->second = text(name);
    return at->second;
  }
  /// Made of what the program calls it, as far as a scenario may.
  Name unique(Taken& taken, std::string_view wanted, const char* otherwise);
  /// Another one may be called so.
  void give_back(Taken& taken, Name name);

  Taken streams;
  Taken buffers;

 private:
  Sink& sink_;
  std::unordered_map<const char*, Name> files_;
};

}  // namespace weir::recorded
