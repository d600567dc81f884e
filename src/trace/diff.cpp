// Two runs of a program side by side: what became slower, and what held it.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include <weir/error.hpp>

#include "json/text.hpp"
#include "trace/intervals.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

/// What commands of one line are called by: name, lane, file and line.
using Key = std::tuple<std::string, Lane, std::string, std::uint32_t>;
using Lines = std::map<Key, Difference::Line>;

Key key_of(const Timeline& timeline, const Command& command) {
  return {std::string(timeline.name_of(command)), command.lane, std::string(timeline.text(command.file)), command.line};
}

Lines lines_of(const Timeline& timeline, std::size_t run) {
  Lines lines;
  for (const Command& command : timeline.commands) {
    if (!is_work(command)) continue;
    Difference::Line& line = lines[key_of(timeline, command)];
    ++line.commands[run];
    line.ran[run] += command.end - command.begin;
  }
  for (const Held& held : explain(timeline)) {
    const auto at = lines.find(key_of(timeline, timeline.commands[held.command]));
    if (at == lines.end()) continue;
    if (at->second.held[run] == 0) at->second.why = held.why;  // the dearest comes first
    at->second.held[run] += held.saves;
  }
  return lines;
}

/// The line of the first run that this one of the second was, if it was another one: the next with its name that is left.
Lines::iterator moved_from(Lines& before, const Lines& after, const Key& key) {
  const auto& [name, lane, file, line] = key;
  for (auto at = before.lower_bound({name, lane, file, 0}); at != before.end(); ++at) {
    const auto& [its_name, its_lane, its_file, its_line] = at->first;
    if (its_name != name || its_lane != lane || its_file != file) break;
    if (after.count(at->first) == 0) return at;
  }
  return before.end();
}

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
  Lines first = lines_of(before, 0);
  const Lines second = lines_of(after, 1);
  const auto add = [&](const Key& key, Difference::Line line) {
    line.name = std::get<0>(key);
    line.lane = std::get<1>(key);
    if (!std::get<2>(key).empty()) line.where = std::get<2>(key) + ":" + std::to_string(std::get<3>(key));
    made.lines.push_back(std::move(line));
  };
  for (const auto& [key, line] : second) {
    auto at = first.find(key);
    if (at == first.end()) at = moved_from(first, second, key);
    Difference::Line both = line;
    if (at != first.end()) {
      both.commands[0] = at->second.commands[0];
      both.ran[0] = at->second.ran[0];
      both.held[0] = at->second.held[0];
      first.erase(at);
    }
    add(key, std::move(both));
  }
  for (const auto& [key, line] : first) add(key, line);
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
    text += duration_text(slower(line)) + ": " + line.name + (line.where.empty() ? "" : ", " + line.where) +
            "\n  ran " + duration_text(line.ran[0]) + " (" + std::to_string(line.commands[0]) + "), now " +
            duration_text(line.ran[1]) + " (" + std::to_string(line.commands[1]) + "); held " +
            duration_text(line.held[0]) + ", now " + duration_text(line.held[1]) + "\n";
    if (line.held[1] > line.held[0]) text += "  " + line.why + "\n";
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
