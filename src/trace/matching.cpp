// Lines of two runs: files by the ends of their paths, then lines of one name by their order.
#include "trace/matching.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace weir::trace {

namespace {

using Places = std::vector<SourcePlace>;
using Ordinals = std::vector<std::uint32_t>;

/// How many names two paths have in common at their ends.
std::size_t common_end(std::string_view a, std::string_view b) {
  std::size_t count = 0;
  while (true) {
    const std::size_t from_a = a.find_last_of("/\\"), from_b = b.find_last_of("/\\");
    if (a.substr(from_a + 1) != b.substr(from_b + 1)) return count;
    ++count;
    if (from_a == a.npos || from_b == b.npos) return count;
    a = a.substr(0, from_a);
    b = b.substr(0, from_b);
  }
}

/// Numbers of the files of both runs: what is one file in both has one. Those that are in one run alone share a number: their lines
/// may be found in a file of another name.
struct FileNumbers {
  std::map<std::string, std::uint32_t> of[2];

  FileNumbers(const Places& before, const Places& after) {
    std::set<std::string> files[2];
    for (const SourcePlace& one : before) files[0].insert(one.file);
    for (const SourcePlace& one : after) files[1].insert(one.file);
    std::uint32_t next = 1;
    const auto pair = [&](const std::string& a, const std::string& b) {
      of[0].emplace(a, next);
      of[1].emplace(b, next++);
    };
    for (const std::string& file : files[0]) {
      if (files[1].count(file) != 0) pair(file, file);
    }
    std::vector<std::tuple<std::size_t, const std::string*, const std::string*>> alike;
    for (const std::string& a : files[0]) {
      for (const std::string& b : files[1]) {
        if (of[0].count(a) != 0 || of[1].count(b) != 0) continue;
        if (const std::size_t count = common_end(a, b); count > 0) alike.emplace_back(count, &a, &b);
      }
    }
    std::stable_sort(alike.begin(), alike.end(),
                     [](const auto& one, const auto& other) { return std::get<0>(one) > std::get<0>(other); });
    for (const auto& [count, a, b] : alike) {
      if (of[0].count(*a) == 0 && of[1].count(*b) == 0) pair(*a, *b);
    }
    for (int run = 0; run < 2; ++run) {
      for (const std::string& file : files[run]) of[run].emplace(file, 0);
    }
  }
};

class Matching {
 public:
  Matching(const Places& before, const Places& after) : before_(before), after_(after) {
    found_.assign(after.size(), none);
    const FileNumbers files(before, after);
    // Lists in the order of the source: places are sorted.
    std::map<std::tuple<std::string_view, Lane, std::uint32_t>, std::pair<Ordinals, Ordinals>> groups;
    for (std::uint32_t i = 0; i < before.size(); ++i) {
      groups[{before[i].name, before[i].lane, files.of[0].at(before[i].file)}].first.push_back(i);
    }
    for (std::uint32_t i = 0; i < after.size(); ++i) {
      groups[{after[i].name, after[i].lane, files.of[1].at(after[i].file)}].second.push_back(i);
    }
    for (const auto& [key, lists] : groups) {
      if (lists.first.size() != lists.second.size()) continue;
      for (std::size_t i = 0; i < lists.first.size(); ++i) pair(lists.first[i], lists.second[i], std::get<2>(key));
    }
    for (const auto& [key, lists] : groups) {
      if (lists.first.size() != lists.second.size()) align(lists.first, lists.second, std::get<2>(key));
    }
  }

  Ordinals found_;

 private:
  void pair(std::uint32_t before, std::uint32_t after, std::uint32_t file) {
    found_[after] = before;
    std::vector<Lines>& known = lines_[file];
    if (file != 0 && known.size() < most_lines) known.emplace_back(before_[before].line, after_[after].line);
  }

  /// Lines came or went: all of the shorter list are found, in order, where that costs least.
  void align(const Ordinals& before, const Ordinals& after, std::uint32_t file) {
    const bool fewer_before = before.size() < after.size();
    const Ordinals &fewer = fewer_before ? before : after, &more = fewer_before ? after : before;
    const auto pair_of = [&](std::size_t i, std::size_t k) {
      return fewer_before ? std::pair(fewer[i], more[k]) : std::pair(more[k], fewer[i]);
    };
    const std::size_t left = more.size() - fewer.size();  // that are not found
    if (fewer.size() > most_costs / (left + 1)) {
      for (std::size_t i = 0; i < fewer.size(); ++i) found_[pair_of(i, i).second] = pair_of(i, i).first;
      return;
    }
    // sums[i][s]: what it costs to find the first i of them behind s others that are not found.
    const std::size_t width = left + 1;
    std::vector<double> sums((fewer.size() + 1) * width, 0);
    const auto through = [&](std::size_t i, std::size_t s) {
      const auto [one, other] = pair_of(i - 1, i - 1 + s);
      return sums[(i - 1) * width + s] + cost(before_[one], after_[other], file);
    };
    for (std::size_t i = 1; i <= fewer.size(); ++i) {
      double best = std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < width; ++s) sums[i * width + s] = best = std::min(best, through(i, s));
    }
    std::size_t s = left;
    for (std::size_t i = fewer.size(); i > 0; --i) {
      while (s > 0 && sums[i * width + s - 1] <= sums[i * width + s]) --s;
      const auto [one, other] = pair_of(i - 1, i - 1 + s);
      found_[other] = one;
    }
  }

  /// How unlikely it is that both are the same line: first by what is around them, then by what they do, last by their numbers.
  double cost(const SourcePlace& before, const SourcePlace& after, std::uint32_t file) const {
    double sum = 0;
    if (const auto known = lines_.find(file); known != lines_.end()) {
      for (const auto& [one, other] : known->second) {
        const int order_before = (one > before.line) - (one < before.line);
        const int order_after = (other > after.line) - (other < after.line);
        if (order_before != order_after) sum += 100;
      }
    }
    sum += apart(before.bytes, before.commands, after.bytes, after.commands);
    sum += apart(static_cast<std::uint64_t>(before.ran), before.commands, static_cast<std::uint64_t>(after.ran),
                 after.commands);
    sum += apart(before.commands, 1, after.commands, 1);
    const double lines = std::abs(static_cast<double>(before.line) - static_cast<double>(after.line));
    return sum + 0.001 * lines / (1 + lines);
  }
  /// Of one command each. At most 3, so that one line that became much slower does not push the others away.
  static double apart(std::uint64_t before, std::uint64_t count_before, std::uint64_t after,
                      std::uint64_t count_after) {
    const double each_before = static_cast<double>(before) / static_cast<double>(count_before);
    const double each_after = static_cast<double>(after) / static_cast<double>(count_after);
    const double logarithm = std::abs(std::log2((each_before + 1) / (each_after + 1)));
    return logarithm < 0.5 ? 0 : std::min(logarithm, 3.0);
  }

  static constexpr std::size_t most_costs = 2'000'000;
  static constexpr std::size_t most_lines = 64;
  using Lines = std::pair<std::uint32_t, std::uint32_t>;
  const Places& before_;
  const Places& after_;
  std::map<std::uint32_t, std::vector<Lines>> lines_;  ///< that are found, by file
};

}  // namespace

std::vector<std::uint32_t> match(const Places& before, const Places& after) { return Matching(before, after).found_; }

}  // namespace weir::trace
