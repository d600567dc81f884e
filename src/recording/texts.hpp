// Strings that are held once, and named by a number.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "recording/chunks.hpp"

namespace weir::recorded {

class Texts {
 public:
  std::uint32_t intern(std::string_view text, Budget& budget);
  /// 0xffffffff if it is not there.
  std::uint32_t find(std::string_view text) const;
  const char* operator[](std::uint32_t name) const { return texts_[name]; }
  std::size_t size() const { return texts_.size(); }

 private:
  const char* keep(std::string_view text, Budget& budget);

  Chunks<const char*> texts_;
  PlaceTable table_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  char* next_ = nullptr;
  std::size_t room_ = 0;
};

}  // namespace weir::recorded
