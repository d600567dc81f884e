// Reports as text: JSON that is never read back as trees, and names in lines for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace weir::json {

/// A JSON string. What is no UTF-8 is replaced.
std::string literal(std::string_view text);

/// As a part of a line for people: what would end the line, or what a terminal would obey, is told by its code, as `\x1b`.
std::string shown(std::string_view text);

/// An object or a list that is being written.
class Parts {
 public:
  explicit Parts(char open) : text_(1, open), close_(open == '{' ? '}' : ']') {}
  Parts& member(const char* name, const std::string& json) {
    separate();
    text_ += literal(name) + ": " + json;
    return *this;
  }
  Parts& text(const char* name, std::string_view value) { return member(name, literal(value)); }
  Parts& number(const char* name, std::uint64_t value) { return member(name, std::to_string(value)); }
  Parts& truth(const char* name, bool value) { return member(name, value ? "true" : "false"); }
  Parts& element(const std::string& json) {
    separate();
    text_ += json;
    return *this;
  }
  std::string end() const { return text_ + close_; }

 private:
  void separate() {
    if (text_.size() > 1) text_ += ", ";
  }
  std::string text_;
  char close_;
};

}  // namespace weir::json
