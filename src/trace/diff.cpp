// Two runs of a program side by side: what became slower, and what held it.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <weir/error.hpp>

#include "json/text.hpp"
#include "trace/intervals.hpp"
#include "trace/matching.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

/// What commands of one line are called by: name, lane, file, line and order.
using Key = std::tuple<std::string, Lane, std::string, std::uint32_t, std::uint32_t>;

/// The lines of one run.
class Run {
 public:
  Run(const Timeline& timeline, std::size_t run) : timeline_(timeline) {
    std::map<Key, std::uint64_t> bytes;
    for (const Command& command : timeline.commands) {
      if (!is_work(command)) continue;
      const Key& key = key_of(command);
      Difference::Line& line = lines_[key];
      ++line.commands[run];
      line.ran[run] += command.end - command.begin;
      if (line.name.empty()) line.name = has_number(command) ? "graph" : timeline.name_of(command);
      bytes[key] += command.bytes;
    }
    for (const Held& held : explain(timeline)) {
      const auto at = lines_.find(key_of(timeline.commands[held.command]));
      if (at == lines_.end()) continue;
      if (at->second.held[run] == 0) at->second.why = held.why;  // the dearest comes first
      at->second.held[run] += held.saves;
    }
    for (auto& [key, line] : lines_) {
      const auto& [name, lane, file, number, order] = key;
      line.lane = lane;
      if (!file.empty()) line.where = file + ":" + std::to_string(number);
      places.push_back({name, lane, file, number, order, line.commands[run], bytes[key], line.ran[run]});
      lines.push_back(line);
    }
  }

  std::vector<SourcePlace> places;
  std::vector<Difference::Line> lines;  ///< of each place

 private:
  /// Graphs of Weir have the process's number in their names: in another run it is another one's. Their lines tell them apart; those
  /// that have none do so by their order.
  bool has_number(const Command& command) const { return command.lane == Lane::graph && command.file != none; }
  const Key& key_of(const Command& command) {
    const auto [at, is_new] = keys_.try_emplace({command.name, command.lane, command.file, command.line});
    if (!is_new) return at->second;
    const std::string name(timeline_.name_of(command));
    if (command.lane != Lane::graph) {
      at->second = {name, command.lane, std::string(timeline_.text(command.file)), command.line, 0};
    } else {
      std::uint32_t order = 0;
      if (!has_number(command)) {
        order = graphs_.try_emplace(name, static_cast<std::uint32_t>(graphs_.size())).first->second;
      }
      at->second = {"graph", command.lane, std::string(timeline_.text(command.file)), command.line, order};
    }
    return at->second;
  }

  const Timeline& timeline_;
  std::map<std::tuple<Text, Lane, Text, std::uint32_t>, Key> keys_;  ///< texts are compared once for each
  std::map<std::string, std::uint32_t> graphs_;                      ///< without a line, in the order of their launches
  std::map<Key, Difference::Line> lines_;
};

std::int64_t slower(const Difference::Line& line) { return line.ran[1] - line.ran[0] + line.held[1] - line.held[0]; }

std::int64_t busy(const Summary& summary) {
  std::int64_t sum = 0;
  for (const Engine& engine : summary.engines) sum += engine.busy;
  return sum;
}

struct Metric {
  const char* name;
  double (*of)(const Summary&);
};
constexpr std::array<Metric, 6> metrics = {{
    {"makespan", [](const Summary& one) { return static_cast<double>(one.makespan); }},
    {"busy", [](const Summary& one) { return static_cast<double>(busy(one)); }},
    {"idle", [](const Summary& one) { return static_cast<double>(one.idle); }},
    {"critical", [](const Summary& one) { return static_cast<double>(one.critical); }},
    {"host_waited", [](const Summary& one) { return static_cast<double>(one.host_waited); }},
    {"submission", [](const Summary& one) { return one.submission; }},
}};

template <class... T>
std::string printed(const char* format, T... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string ratio_text(double before, double after) { return before > 0 ? printed("%.3gx", after / before) : "-"; }

/// The next word of a condition, of one kind of character.
std::string_view word(std::string_view& rest, std::string_view characters) {
  while (!rest.empty() && rest.front() == ' ') rest.remove_prefix(1);
  const std::string_view found = rest.substr(0, rest.find_first_not_of(characters));
  rest.remove_prefix(found.size());
  return found;
}

}  // namespace

Difference compare(const Timeline& before, const Timeline& after) {
  Difference made;
  made.summary[0] = summarize(before);
  made.summary[1] = summarize(after);
  const Run first(before, 0), second(after, 1);
  const std::vector<std::uint32_t> found = match(first.places, second.places);
  std::vector<bool> is_found(first.lines.size());
  for (std::size_t i = 0; i < second.lines.size(); ++i) {
    Difference::Line line = second.lines[i];
    if (found[i] != none) {
      const Difference::Line& its = first.lines[found[i]];
      line.commands[0] = its.commands[0];
      line.ran[0] = its.ran[0];
      line.held[0] = its.held[0];
      is_found[found[i]] = true;
    }
    made.lines.push_back(std::move(line));
  }
  for (std::size_t i = 0; i < first.lines.size(); ++i) {
    if (!is_found[i]) made.lines.push_back(first.lines[i]);
  }
  std::stable_sort(made.lines.begin(), made.lines.end(),
                   [](const Difference::Line& a, const Difference::Line& b) { return slower(a) > slower(b); });
  return made;
}

std::string to_text(const Difference& difference) {
  constexpr std::size_t most = 10;
  std::string text = printed("%-28s%12s%12s%10s\n", "", "before", "after", "");
  for (const Metric& metric : metrics) {
    const double before = metric.of(difference.summary[0]), after = metric.of(difference.summary[1]);
    text += printed("%-28s%12s%12s%10s\n", metric.name, duration_text(static_cast<std::int64_t>(before)).c_str(),
                    duration_text(static_cast<std::int64_t>(after)).c_str(), ratio_text(before, after).c_str());
  }
  std::size_t shown = 0;
  for (const Difference::Line& line : difference.lines) {
    if (shown == most || slower(line) <= 0) break;
    if (shown++ == 0) text += "\nSlower, the dearest first:\n";
    text += duration_text(slower(line)) + ": " + json::shown(line.name) +
            (line.where.empty() ? "" : ", " + json::shown(line.where)) + "\n  ran " + duration_text(line.ran[0]) +
            " (" + std::to_string(line.commands[0]) + "), now " + duration_text(line.ran[1]) + " (" +
            std::to_string(line.commands[1]) + "); held " + duration_text(line.held[0]) + ", now " +
            duration_text(line.held[1]) + "\n";
    if (line.held[1] > line.held[0]) text += "  " + json::shown(line.why) + "\n";
  }
  return text;
}

std::string to_json(const Difference& difference) {
  json::Parts numbers('{'), lines('[');
  for (const Metric& metric : metrics) {
    json::Parts both('{');
    both.member("before", printed("%.0f", metric.of(difference.summary[0])));
    numbers.member(metric.name, both.member("after", printed("%.0f", metric.of(difference.summary[1]))).end());
  }
  for (const Difference::Line& line : difference.lines) {
    json::Parts one('{');
    one.text("name", line.name).text("where", line.where).text("engine", to_text(line.lane));
    one.number("commands_before", line.commands[0]).number("commands_after", line.commands[1]);
    one.member("ran_before_ns", std::to_string(line.ran[0])).member("ran_after_ns", std::to_string(line.ran[1]));
    one.member("held_before_ns", std::to_string(line.held[0])).member("held_after_ns", std::to_string(line.held[1]));
    lines.element(one.member("slower_ns", std::to_string(slower(line))).text("why", line.why).end());
  }
  json::Parts made('{');
  made.text("format", "weir.trace.diff").number("version", 1).member("numbers", numbers.end());
  return made.member("lines", lines.end()).end();
}

bool holds(std::string_view condition, const Difference& difference, SourceLocation where) {
  const auto refuse = [&](const char* why) {
    return Error(Errc::invalid_value, "weir::trace::holds", "'" + std::string(condition) + "'", why, where);
  };
  std::string_view rest = condition;
  const std::string_view name = word(rest, "abcdefghijklmnopqrstuvwxyz_");
  const auto metric = std::find_if(metrics.begin(), metrics.end(), [&](const Metric& one) { return one.name == name; });
  if (metric == metrics.end()) {
    throw refuse("it begins with one of makespan, busy, idle, critical, host_waited and submission");
  }
  const std::string_view sign = word(rest, "<>=");
  const std::string_view digits = word(rest, "0123456789.");
  const std::string_view unit = word(rest, "abcdefghijklmnopqrstuvwxyz");
  double bound = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), bound);
  if (digits.empty() || read.ec != std::errc() || read.ptr != digits.data() + digits.size()) {
    throw refuse("a number is missing");
  }
  constexpr std::pair<std::string_view, double> units[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  if (unit == "x") {
    bound *= metric->of(difference.summary[0]);
  } else {
    const auto at =
        std::find_if(std::begin(units), std::end(units), [&](const auto& one) { return one.first == unit; });
    if (at == std::end(units)) throw refuse("the number ends with x, ns, us, ms or s");
    bound *= at->second;
  }
  word(rest, "");
  if (!rest.empty()) throw refuse("something is left at its end");
  const double value = metric->of(difference.summary[1]);
  if (sign == ">") return value > bound;
  if (sign == ">=") return value >= bound;
  if (sign == "<") return value < bound;
  if (sign == "<=") return value <= bound;
  throw refuse("it compares by >, >=, < or <=");
}

}  // namespace weir::trace
