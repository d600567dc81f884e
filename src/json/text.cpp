// JSON strings.
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

}  // namespace weir::json
