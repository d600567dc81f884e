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
    if (name == last_file_) return last_file_name_;
    const auto [at, is_new] = files_.try_emplace(name, none);
    if (is_new) at->second = text(name);
    last_file_ = name;
    return last_file_name_ = at->second;
  }
  /// Of a kernel: many launches are of the one before.
  Name kernel(std::string_view name) {
    if (last_kernel_name_ != none && name == last_kernel_) return last_kernel_name_;
    const Name found = text(name);
    last_kernel_ = name;
    return last_kernel_name_ = found;
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
  const char* last_file_ = nullptr;
  Name last_file_name_ = none;
  std::string last_kernel_;
  Name last_kernel_name_ = none;
};

}  // namespace weir::recorded
