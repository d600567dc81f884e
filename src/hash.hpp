// A hash that is the same in all processes and builds (FNV-1a): std::hash promises neither.
#pragma once

#include <cstdint>
#include <string_view>

namespace weir::detail {

class Hash {
 public:
  void add(std::uint64_t value) { value_ = (value_ ^ value) * 1099511628211u; }
  void add(std::string_view text) {
    for (const char one : text) add(static_cast<unsigned char>(one));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 14695981039346656037u;
};

}  // namespace weir::detail
