// Strings that are held once, and named by a number.
#include "recording/texts.hpp"

#include <cstring>
#include <functional>
#include <string>

#include <weir/error.hpp>

namespace weir::recorded {

namespace {

std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

}  // namespace

void Budget::take(std::size_t bytes) {
  if (bytes > limit_ - used_) {
    throw Error(Errc::out_of_memory, "weir::Recording::add", "the recording",
                "it would take more than its limit of " + std::to_string(limit_) + " bytes", {});
  }
  used_ += bytes;
}

std::uint32_t Texts::find(std::string_view text) const {
  return table_.find(hash_of(text), [&](std::uint32_t name) { return text == texts_[name]; });
}

std::uint32_t Texts::intern(std::string_view text, Budget& budget) {
  const std::size_t hash = hash_of(text);
  const std::uint32_t found = table_.find(hash, [&](std::uint32_t name) { return text == texts_[name]; });
  if (found != 0xffffffff) return found;
  table_.reserve(budget, [&](std::uint32_t name) { return hash_of(texts_[name]); });
  texts_.push(keep(text, budget), budget);
  const auto name = static_cast<std::uint32_t>(texts_.size() - 1);
  table_.insert(hash, name);
  return name;
}

const char* Texts::keep(std::string_view text, Budget& budget) {
  constexpr std::size_t block = 4096;
  const std::size_t bytes = text.size() + 1;
  char* at = next_;
  if (bytes <= room_) {
    next_ += bytes;
    room_ -= bytes;
  } else {
    const std::size_t size = bytes > block / 4 ? bytes : block;
    budget.take(size + sizeof(void*));
    blocks_.push_back(std::make_unique<char[]>(size));
    at = blocks_.back().get();
    if (size == block) {
      next_ = at + bytes;
      room_ = block - bytes;
    }
  }
  std::memcpy(at, text.data(), text.size());
  at[text.size()] = '\0';
  return at;
}

}  // namespace weir::recorded
