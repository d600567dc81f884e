// Findings that a user knows of.
#include "check/suppressions.hpp"

#include <sstream>

#include <weir/error.hpp>

namespace weir::check {

bool glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0, star = std::string_view::npos, from = 0;
  while (t < text.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t]) && pattern[p] != '*') {
      ++p;
      ++t;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Suppressions::Suppressions(std::string_view text, const std::string& name, SourceLocation where) {
  std::istringstream all{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(all, line);) {
    ++number;
    const std::size_t hash = line.find('#');
    std::istringstream begin(line.substr(0, hash));
    Line made;
    made.text = line;
    for (std::string word; begin >> word;) made.words.push_back(word);
    if (made.words.empty()) continue;
    const auto wrong = [&](const char* why) {
      throw Error(Errc::invalid_value, "weir::Checker", name + ":" + std::to_string(number), why, where);
    };
    if (made.words.size() != 4) wrong("a suppression is: kind buffer second first  # reason");
    if (hash == std::string::npos || line.find_first_not_of(" \t\r", hash + 1) == std::string::npos) {
      wrong("a suppression needs a reason behind a #");
    }
    lines_.push_back(std::move(made));
  }
}

bool Suppressions::match(const Finding& finding) {
  const auto fits = [](const std::string& pattern, const FindingPart<Side>& side) {
    if (!side) return glob(pattern, "") || pattern == "-";
    const std::string id = side->node.empty() ? side->command : side->command + "/" + side->node;
    const std::string line = ":" + std::to_string(side->line);
    const std::string in_keys = side->file.substr(side->file.rfind('/') + 1) + line;
    return glob(pattern, side->file + line) || glob(pattern, in_keys) || glob(pattern, id);
  };
  bool any = false;
  for (Line& line : lines_) {
    if (!glob(line.words[0], to_text(finding.kind))) continue;
    if (!glob(line.words[1], finding.buffer ? finding.buffer->name : "") &&
        !(line.words[1] == "-" && !finding.buffer)) {
      continue;
    }
    if (!fits(line.words[2], finding.second) || !fits(line.words[3], finding.first)) continue;
    line.matched = any = true;
  }
  return any;
}

std::vector<std::string> Suppressions::unmatched() const {
  std::vector<std::string> all;
  for (const Line& line : lines_) {
    if (!line.matched) all.push_back(line.text);
  }
  return all;
}

}  // namespace weir::check
