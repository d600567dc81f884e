// JSON strings, and names as lines have them.
#include "json/text.hpp"

#include <cstdio>

namespace weir::json {

namespace {

/// How many bytes of well-formed UTF-8 stand at `at`; 0 if none do.
std::size_t character(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at), second = byte(at + 1);
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return continues(at + 1) ? 2 : 0;
  if (first >= 0xe0 && first <= 0xef) {
    const bool fits = (first != 0xe0 || second >= 0xa0) && (first != 0xed || second < 0xa0);
    return fits && continues(at + 1) && continues(at + 2) ? 3 : 0;
  }
  if (first >= 0xf0 && first <= 0xf4) {
    const bool fits = (first != 0xf0 || second >= 0x90) && (first != 0xf4 || second < 0x90);
    return fits && continues(at + 1) && continues(at + 2) && continues(at + 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string literal(std::string_view text) {
  std::string made = "\"";
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character(text, i);
    const char c = text[i];
    if (length == 0) {
      made += "\xef\xbf\xbd";
      ++i;
      continue;
    }
    if (c == '"' || c == '\\') {
      made += '\\';
      made += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      made += code;
    } else {
      made.append(text.substr(i, length));
    }
    i += length;
  }
  return made + "\"";
}

namespace {

std::string code_of(const char* format, unsigned value) {
  char code[16];
  std::snprintf(code, sizeof code, format, value);
  return code;
}

/// Control characters, and those that change the direction of what stands behind them.
std::string code_of_what_is_obeyed(std::string_view one) {
  const unsigned first = static_cast<unsigned char>(one[0]);
  if (one.size() == 1) {
    if (one == "\n") return "\\n";
    return first < 0x20 || first == 0x7f ? code_of("\\x%02x", first) : "";
  }
  const unsigned second = static_cast<unsigned char>(one[1]);
  if (one.size() == 2) return first == 0xc2 && second < 0xa0 ? code_of("\\x%02x", second) : "";
  if (one.size() != 3 || first != 0xe2) return "";
  const unsigned value = 0x2000 | (second & 0x3f) << 6 | (static_cast<unsigned char>(one[2]) & 0x3f);
  const bool is_direction = (value >= 0x202a && value <= 0x202e) || (value >= 0x2066 && value <= 0x2069);
  const bool is_line_end = value == 0x2028 || value == 0x2029;
  return is_direction || is_line_end ? code_of("\\u%04x", value) : "";
}

}  // namespace

std::string shown(std::string_view text) {
  std::string made;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = character(text, i);
    if (length == 0) {
      made += code_of("\\x%02x", static_cast<unsigned char>(text[i++]));
      continue;
    }
    const std::string_view one = text.substr(i, length);
    const std::string code = code_of_what_is_obeyed(one);
    made += code.empty() ? one : std::string_view(code);
    i += length;
  }
  return made;
}

}  // namespace weir::json
