// --set and --expect: what they say, and whether it holds.
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>

#include <weir/error.hpp>
#include <weir/sim.hpp>

namespace weir::sim {

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

/// Takes the number off the front; none if there is none.
std::optional<double> take_number(std::string_view& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

/// Throws std::string for what is no engine.
Engine engine_named(std::string_view name) {
  for (std::size_t i = 0; i + 1 < engine_count; ++i) {
    if (name_of(static_cast<Engine>(i)) == name) return static_cast<Engine>(i);
  }
  throw "there is no engine \"" + std::string(name) + "\"";
}

struct Measure {
  double value = 0;
  bool time = false;  ///< in microseconds
};

Measure measure(const Prediction& prediction, std::string_view text) {
  if (text == "makespan") return {prediction.makespan_us, true};
  if (text == "host") return {prediction.host_us, true};
  const std::size_t open = text.find('(');
  if (open != std::string_view::npos && text.back() == ')') {
    const std::string_view inside = text.substr(open + 1, text.size() - open - 2);
    const std::string_view name = trimmed(text.substr(0, open));
    const std::size_t comma = inside.find(',');
    if (name == "busy" && comma == std::string_view::npos)
      return {prediction.busy_us[static_cast<std::size_t>(engine_named(trimmed(inside)))], true};
    if (name == "overlap" && comma != std::string_view::npos) {
      const Engine a = engine_named(trimmed(inside.substr(0, comma)));
      const Engine b = engine_named(trimmed(inside.substr(comma + 1)));
      const auto counts = [](Engine e) { return e == Engine::h2d || e == Engine::d2h || e == Engine::kernel; };
      if (!counts(a) || !counts(b) || a == b) throw std::string("overlaps are of two of h2d, d2h and kernel");
      return {prediction.overlap(a, b), false};
    }
  }
  throw "\"" + std::string(text) + "\" is none of makespan, host, busy(ENGINE), overlap(ENGINE, ENGINE)";
}

double limit(std::string_view text, bool time) {
  const std::string whole(text);
  const std::optional<double> number = take_number(text);
  if (!number) throw "\"" + whole + "\" is no number";
  const std::string_view unit = trimmed(text);
  if (!time) {
    if (unit.empty()) return *number;
    throw "overlaps have no unit: \"" + std::string(unit) + "\"";
  }
  for (const auto& [name, us] : {std::pair{"ns", 1e-3}, {"us", 1.0}, {"ms", 1e3}, {"s", 1e6}}) {
    if (unit == name) return *number * us;
  }
  throw "\"" + whole + "\" has no unit: ns, us, ms or s";
}

bool holds(double left, std::string_view sign, double right) {
  return sign == "<=" ? left <= right : sign == ">=" ? left >= right : sign == "<" ? left < right : left > right;
}

std::string shown(const Measure& measure) {
  char text[48];
  std::snprintf(text, sizeof text, measure.time ? "%.3f us" : "%.3f", measure.value);
  return text;
}

}  // namespace

Setting parse_setting(std::string_view text, SourceLocation where) {
  const std::size_t equals = text.find('=');
  const auto refuse = [&](const char* why) {
    throw Error(Errc::invalid_value, "weir::sim::parse_setting", std::string(text), why, where);
  };
  if (equals == std::string_view::npos || equals == 0) refuse("it is FIELD=NUMBER");
  std::string_view number = trimmed(text.substr(equals + 1));
  const std::optional<double> value = take_number(number);
  if (!value || !number.empty()) refuse("what follows = is no number");
  return {std::string(trimmed(text.substr(0, equals))), *value};
}

std::string unmet(const Prediction& prediction, std::string_view expectation, SourceLocation where) {
  try {
    const std::size_t at = expectation.find_first_of("<>");
    if (at == std::string_view::npos) throw std::string("it has none of <=, >=, < and >");
    const std::size_t length = at + 1 < expectation.size() && expectation[at + 1] == '=' ? 2 : 1;
    const Measure left = measure(prediction, trimmed(expectation.substr(0, at)));
    const double right = limit(trimmed(expectation.substr(at + length)), left.time);
    if (holds(left.value, expectation.substr(at, length), right)) return {};
    return std::string(trimmed(expectation.substr(0, at))) + " is " + shown(left);
  } catch (const std::string& wrong) {
    throw Error(Errc::invalid_value, "weir::sim::unmet", std::string(expectation), wrong, where);
  }
}

}  // namespace weir::sim
