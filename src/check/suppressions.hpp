// Findings that a user knows of: one a line, with the reason.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <weir/check.hpp>

namespace weir::check {

class Suppressions {
 public:
  Suppressions() = default;
  /// `kind buffer second first  # reason`, each of the four a glob; second and first are file:line, or in scenarios also
  /// a command's id. Throws invalid_value with the line that is wrong.
  Suppressions(std::string_view text, const std::string& name, SourceLocation where);

  bool match(const Finding& finding);
  /// Lines that matched nothing.
  std::vector<std::string> unmatched() const;

 private:
  struct Line {
    std::string text;
    std::vector<std::string> words;
    bool matched = false;
  };
  std::vector<Line> lines_;
};

/// `*` stands for any text, `?` for one character.
bool glob(std::string_view pattern, std::string_view text);

}  // namespace weir::check
