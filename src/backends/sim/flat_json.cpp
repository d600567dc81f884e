#include "backends/sim/flat_json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <set>
#include <system_error>

namespace weir::sim {

namespace {

constexpr int most_nested = 8;

bool is_key(std::string_view key) {
  return !key.empty() && key.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
                             std::string_view::npos;
}

class Reader {
 public:
  Reader(std::string_view text, const std::function<void(const Leaf&)>& take) : text_(text), take_(take) {}

  void read() {
    if (next() != '{') fail("a file is an object");
    object(0);
    if (next() != '\0' || at_ < text_.size()) fail("nothing follows the object");
  }

 private:
  [[noreturn]] void fail(const char* what) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw "parse error at line " + std::to_string(line) + ": " + what;
  }

  /// The character that is next behind white space; 0 at the end.
  char next() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take_if(char c) {
    if (next() != c) return false;
    ++at_;
    return true;
  }

  void object(int depth) {
    ++at_;
    std::set<std::string> keys;
    if (take_if('}')) return empty();
    do {
      if (next() != '"') fail("a key in quotes is missing");
      const std::string key = string();
      if (!is_key(key)) fail("keys are letters, digits and underscores");
      if (!keys.insert(key).second) throw within(key) + ": it is there twice";
      if (!take_if(':')) fail("a colon is missing");
      inside(key, depth);
    } while (take_if(','));
    if (!take_if('}')) fail("a comma or the object's end is missing");
  }

  void array(int depth) {
    ++at_;
    if (take_if(']')) return empty();
    std::size_t index = 0;
    do {
      inside(std::to_string(index++), depth);
    } while (take_if(','));
    if (!take_if(']')) fail("a comma or the list's end is missing");
  }

  void empty() {
    if (!path_.empty()) take_({.path = path_, .text = {}, .is_empty = true});
  }

  std::string within(std::string_view key) const { return path_ + (path_.empty() ? "" : ".") + std::string(key); }

  void inside(std::string_view key, int depth) {
    const std::size_t before = path_.size();
    path_ = within(key);
    value(depth + 1);
    path_.resize(before);
  }

  void value(int depth) {
    if (depth > most_nested) fail("it is nested too deep");
    switch (next()) {
      case '{': return object(depth);
      case '[': return array(depth);
      case '"': {
        const std::string text = string();
        return take_({path_, false, true, 0, text});
      }
      case 't': return word("true");
      case 'f': return word("false");
      case 'n': return word("null");
      default: number();
    }
  }

  void word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) fail("a value is missing");
    at_ += word.size();
    take_({path_, false, false, 0, word});
  }

  void number() {
    const std::size_t digit = at_ + (next() == '-' ? 1 : 0);
    if (digit >= text_.size() || text_[digit] < '0' || text_[digit] > '9') fail("a value is missing");
    double number = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), number);
    if (error != std::errc{}) fail("a number is out of range");
    const std::string_view digits = text_.substr(digit, static_cast<std::size_t>(end - text_.data()) - digit);
    const std::size_t point = digits.find('.');
    const auto digit_at = [&](std::size_t at) { return at < digits.size() && digits[at] >= '0' && digits[at] <= '9'; };
    if ((digits[0] == '0' && digit_at(1)) || (point != std::string_view::npos && !digit_at(point + 1)))
      fail("a number is not written as JSON has it");
    at_ = static_cast<std::size_t>(end - text_.data());
    take_({path_, true, false, number, {}});
  }

  std::string string() {
    std::string made;
    for (++at_; at_ < text_.size() && text_[at_] != '"';) {
      if (static_cast<unsigned char>(text_[at_]) < ' ') fail("a text goes on over its line");
      if (text_[at_] == '\\') {
        escape(made);
      } else {
        made += text_[at_++];
      }
    }
    if (at_ >= text_.size()) fail("a text does not end");
    ++at_;
    return made;
  }

  void escape(std::string& made) {
    constexpr std::string_view letters = "\"\\/bfnrt", meant = "\"\\/\b\f\n\r\t";
    const char letter = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    if (letter == 'u') return utf8(character(), made);
    const std::size_t which = letters.find(letter);
    if (letter == '\0' || which == std::string_view::npos) fail("a text has an escape that JSON does not have");
    made += meant[which];
    at_ += 2;
  }

  /// Of "\u20ac", or of two such that are one character.
  char32_t character() {
    const char32_t first = unit();
    if (first == 0) fail("a text holds no character 0");
    if (first < 0xd800 || first > 0xdfff) return first;
    const bool goes_on = first < 0xdc00 && text_.substr(at_, 2) == "\\u";
    const char32_t second = goes_on ? unit() : 0;
    if (second < 0xdc00 || second > 0xdfff) fail("a text has half a character");
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
  }

  char32_t unit() {
    const std::string_view digits = text_.substr(std::min(text_.size(), at_ + 2), 4);
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (error != std::errc{} || end != digits.data() + 4) fail("a text has an escape that JSON does not have");
    at_ += 6;
    return value;
  }

  static void utf8(char32_t character, std::string& made) {
    const auto add = [&](char32_t head, int shift) {
      made += static_cast<char>(head | ((character >> shift) & (shift == 0 && head == 0 ? 0x7f : 0x3f)));
    };
    if (character < 0x80) return add(0, 0);
    if (character < 0x800) {
      add(0xc0, 6);
    } else {
      if (character < 0x10000) {
        add(0xe0, 12);
      } else {
        add(0xf0, 18);
        add(0x80, 12);
      }
      add(0x80, 6);
    }
    add(0x80, 0);
  }

  std::string_view text_;
  const std::function<void(const Leaf&)>& take_;
  std::size_t at_ = 0;
  std::string path_;
};

}  // namespace

void read_flat_json(std::string_view text, const std::function<void(const Leaf&)>& take) { Reader(text, take).read(); }

}  // namespace weir::sim
