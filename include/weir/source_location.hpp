// Where in the user's program a call was made.
#pragma once

#include <weir/detail/language.hpp>

#include <cstdint>

namespace weir {

/// The user's source line behind a command or an error: two words, so that a launch can carry it for nothing.
/// std::source_location would do, but clang 14 lacks it (docs/decisions/0001-source-location.md); the accessors have its names.
class SourceLocation {
 public:
  constexpr SourceLocation() = default;
  constexpr SourceLocation(const char* file, std::uint32_t line) : file_(file), line_(line) {}

  static constexpr SourceLocation current(const char* file = __builtin_FILE(), std::uint32_t line = __builtin_LINE()) {
    return {file, line};
  }

  constexpr const char* file_name() const { return file_; }
  constexpr std::uint32_t line() const { return line_; }
  constexpr explicit operator bool() const { return line_ != 0; }

 private:
  const char* file_ = "";
  std::uint32_t line_ = 0;
};

}  // namespace weir
