// Numbers and reasons as text, and as JSON.
#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "json/text.hpp"
#include "trace/gaps.hpp"
#include "trace/words.hpp"

namespace weir::trace {

namespace {

template <class... T>
std::string printed(const char* format, T... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string real(double value) { return printed("%.9g", value); }

std::string list(const std::vector<std::string>& elements) {
  json::Parts made('[');
  for (const std::string& one : elements) made.element(one);
  return made.end();
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

std::uint64_t whole(std::int64_t ns) { return static_cast<std::uint64_t>(ns); }

std::string lane_words(const Timeline& timeline, std::uint32_t device, Lane lane) {
  return json::shown(timeline.text(timeline.devices[device])) + " " + std::string(to_text(lane));
}

json::Parts command_json(const Timeline& timeline, std::uint32_t place) {
  const Command& command = timeline.commands[place];
  json::Parts made('{');
  made.number("command", place).text("name", timeline.name_of(command));
  made.text("stream", timeline.text(timeline.streams[command.stream].name));
  made.text("where", place_text(timeline, command.file, command.line));
  return made;
}

constexpr std::size_t most_gaps = 5;

/// Where the critical path's time goes, by line.
std::string critical_path_text(const Summary& summary, const Timeline& timeline) {
  constexpr std::size_t most = 10;
  struct Line {
    std::uint32_t command;
    std::uint64_t count = 0;
    std::int64_t ran = 0;
  };
  std::map<std::tuple<std::string_view, Text, std::uint32_t>, Line> found;
  for (const std::uint32_t place : summary.critical_path) {
    const Command& one = timeline.commands[place];
    Line& line = found.try_emplace({timeline.name_of(one), one.file, one.line}, Line{place}).first->second;
    ++line.count;
    line.ran += one.end - one.begin;
  }
  std::vector<Line> lines;
  for (const auto& [key, line] : found) lines.push_back(line);
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.ran > b.ran; });
  std::string text = "\non the critical path              ran     commands\n";
  for (std::size_t i = 0; i < lines.size() && i < most; ++i) {
    const Command& one = timeline.commands[lines[i].command];
    const std::string where = place_text(timeline, one.file, one.line);
    text +=
        printed("%38s%13llu  ", duration_text(lines[i].ran).c_str(), static_cast<unsigned long long>(lines[i].count)) +
        json::shown(timeline.name_of(one)) + (where.empty() ? "" : ", " + json::shown(where)) + "\n";
  }
  if (lines.size() > most) text += "and " + std::to_string(lines.size() - most) + " lines that took less\n";
  return text;
}

std::string gaps_text(const std::vector<IdleGap>& gaps, const Timeline& timeline) {
  std::string text = "\nlongest idle                       for           at  until\n";
  for (std::size_t i = 0; i < gaps.size() && i < most_gaps; ++i) {
    const Command& one = timeline.commands[gaps[i].before];
    const std::string where = place_text(timeline, one.file, one.line);
    text += printed("%38s%13s  ", duration_text(gaps[i].end - gaps[i].begin).c_str(),
                    duration_text(gaps[i].begin).c_str()) +
            json::shown(command_text(timeline, gaps[i].before)) + (where.empty() ? "" : ", " + json::shown(where)) +
            "\n";
  }
  return text;
}

std::string device_best_text(const Engine& engine, const Timeline& timeline) {
  if (engine.device_bytes_per_second <= 0) return "not known";
  return printed("%.2f, ", engine.device_bytes_per_second / 1e9) + json::shown(timeline.text(engine.source));
}

}  // namespace

std::string to_text(const Summary& summary, const Timeline& timeline) {
  std::string text = printed("%-34s%12s\n", "makespan", duration_text(summary.makespan).c_str());
  text += printed("%-34s%12llu\n", "commands", static_cast<unsigned long long>(summary.commands));
  text += printed("%-34s%12s%8.1f %%\n", "nothing ran", duration_text(summary.idle).c_str(),
                  percent(summary.idle, summary.makespan));
  text += printed("%-34s%12s%8.1f %%\n", "critical path", duration_text(summary.critical).c_str(),
                  percent(summary.critical, summary.makespan));
  text += printed("%-34s%12s\n", "the host waited", duration_text(summary.host_waited).c_str());
  text += printed("%-34s%12s\n\n", "between two calls (median)",
                  duration_text(static_cast<std::int64_t>(summary.submission)).c_str());
  text +=
      printed("%-34s%12s%10s%10s%17s  %s\n", "engine", "busy", "", "commands", "GB/s (best here)", "the device's best");
  for (const Engine& one : summary.engines) {
    text += printed("%-34s%12s%8.1f %%%10llu", lane_words(timeline, one.device, one.lane).c_str(),
                    duration_text(one.busy).c_str(), percent(one.busy, summary.makespan),
                    static_cast<unsigned long long>(one.commands));
    if (one.bytes_per_second > 0) {
      text += printed("%8.2f", one.bytes_per_second / 1e9);
      // Copies at once are faster together than any of them, and what was too short is no best one.
      const bool has_best = one.best_bytes_per_second >= one.bytes_per_second;
      const std::string here = has_best ? printed(" (%.2f)", one.best_bytes_per_second / 1e9) : "";
      text += one.lane == Lane::fill ? here : printed("%-9s  ", here.c_str()) + device_best_text(one, timeline);
    }
    text += "\n";
  }
  text += printed("\n%-58s%12s\n", "overlap", "both busy");
  for (const Overlap& one : summary.overlaps) {
    text += printed("%-34s%-24s%12s\n", lane_words(timeline, one.device, one.first).c_str(),
                    std::string(to_text(one.second)).c_str(), duration_text(one.ns).c_str());
  }
  text += "\nat once     for\n";
  for (std::size_t n = 0; n < summary.concurrency.size(); ++n) {
    text += printed("%7zu%12s%8.1f %%\n", n, duration_text(summary.concurrency[n]).c_str(),
                    percent(summary.concurrency[n], summary.makespan));
  }
  if (!summary.exchanges.empty()) {
    text += "\ncollective                       count  GB/s (bus)   ranks waited\n";
    for (const Exchange& one : summary.exchanges) {
      text += printed("%-26s%12llu%12.2f%15s",
                      (json::shown(one.name) + ", " + std::to_string(one.ranks) + " ranks").c_str(),
                      static_cast<unsigned long long>(one.count), one.bus_bytes_per_second / 1e9,
                      duration_text(one.waited).c_str());
      text += one.latest < 0 ? "\n" : ", most for rank " + std::to_string(one.latest) + "\n";
    }
  }
  if (!summary.critical_path.empty()) text += critical_path_text(summary, timeline);
  if (const std::vector<IdleGap> gaps = idle_gaps(timeline); !gaps.empty()) text += gaps_text(gaps, timeline);
  if (!timeline.clock.empty()) text += "\nTimes: " + json::shown(timeline.clock) + ".\n";
  if (!timeline.note.empty()) text += "\nNote: " + json::shown(timeline.note) + ".\n";
  return text;
}

std::string to_json(const Summary& summary, const Timeline& timeline) {
  std::vector<std::string> engines, overlaps, concurrency, path;
  for (const Engine& one : summary.engines) {
    json::Parts engine('{');
    engine.text("device", timeline.text(timeline.devices[one.device])).text("engine", to_text(one.lane));
    engine.number("commands", one.commands).number("bytes", one.bytes).number("busy_ns", whole(one.busy));
    engine.member("bytes_per_second", real(one.bytes_per_second));
    engine.member("best_bytes_per_second", real(one.best_bytes_per_second));
    const bool known = one.device_bytes_per_second > 0;
    engine.member("device_bytes_per_second", known ? real(one.device_bytes_per_second) : "null");
    engines.push_back(engine.text("device_source", timeline.text(one.source)).end());
  }
  for (const Overlap& one : summary.overlaps) {
    json::Parts overlap('{');
    overlap.text("device", timeline.text(timeline.devices[one.device])).text("first", to_text(one.first));
    overlaps.push_back(overlap.text("second", to_text(one.second)).number("ns", whole(one.ns)).end());
  }
  for (const std::int64_t ns : summary.concurrency) concurrency.push_back(std::to_string(ns));
  for (const std::uint32_t place : summary.critical_path) path.push_back(command_json(timeline, place).end());
  json::Parts made('{');
  made.text("format", "weir.trace.summary").number("version", 1).text("program", timeline.program);
  made.text("clock", timeline.clock).text("note", timeline.note);
  made.number("commands", summary.commands).number("ran", summary.ran).number("dropped", timeline.dropped);
  made.number("makespan_ns", whole(summary.makespan)).number("idle_ns", whole(summary.idle));
  made.number("critical_ns", whole(summary.critical)).number("host_waited_ns", whole(summary.host_waited));
  made.member("submission_ns", real(summary.submission)).member("engines", list(engines));
  made.member("overlaps", list(overlaps)).member("concurrency_ns", list(concurrency));
  std::vector<std::string> exchanges;
  for (const Exchange& one : summary.exchanges) {
    json::Parts exchange('{');
    exchange.text("name", one.name).member("ranks", std::to_string(one.ranks)).number("count", one.count);
    exchange.number("bytes", one.bytes)
        .number("ns", whole(one.ns))
        .member("bus_bytes_per_second", real(one.bus_bytes_per_second));
    exchanges.push_back(
        exchange.number("waited_ns", whole(one.waited)).member("latest", std::to_string(one.latest)).end());
  }
  made.member("collectives", list(exchanges));
  std::vector<std::string> gaps;
  constexpr std::size_t most = 100;
  for (const IdleGap& one : idle_gaps(timeline)) {
    if (gaps.size() == most) break;
    json::Parts gap('{');
    gap.number("begin_ns", whole(one.begin)).number("end_ns", whole(one.end));
    gaps.push_back(gap.member("before", command_json(timeline, one.before).end()).end());
  }
  made.member("idle_gaps", list(gaps));
  return made.member("critical_path", list(path)).end();
}

std::string to_text(const std::vector<Held>& held, const Timeline& timeline) {
  constexpr std::size_t most = 10;
  if (held.empty()) return "Nothing held a command for a microsecond but the work before it in its stream.\n";
  std::string text;
  for (std::size_t i = 0; i < held.size() && i < most; ++i) {
    const Held& one = held[i];
    text += std::to_string(i + 1) + ". " + duration_text(one.saves) + " at most: " + std::string(to_text(one.reason));
    const std::string place = place_text(timeline, one.file, one.line);
    if (!place.empty()) text += ", " + json::shown(place);
    if (one.count > 1) text += ", " + std::to_string(one.count) + " times";
    text += "\n   " + json::shown(one.why) + ".\n   Change: " + json::shown(one.change) + ".\n";
  }
  if (held.size() > most) text += "and " + std::to_string(held.size() - most) + " more that cost less\n";
  return text;
}

std::string to_json(const std::vector<Held>& held, const Timeline& timeline) {
  std::vector<std::string> reasons;
  for (const Held& one : held) {
    json::Parts reason('{');
    reason.text("reason", to_text(one.reason)).member("held", command_json(timeline, one.command).end());
    reason.member("by", one.by == none ? "null" : command_json(timeline, one.by).end());
    reason.text("file", timeline.text(one.file)).number("line", one.line);
    reason.number("begin_ns", whole(one.begin)).number("end_ns", whole(one.end)).number("saves_ns", whole(one.saves));
    reason.number("count", one.count).text("why", one.why);
    reasons.push_back(reason.text("change", one.change).end());
  }
  json::Parts made('{');
  made.text("format", "weir.trace.reasons").number("version", 1).text("program", timeline.program);
  return made.member("reasons", list(reasons)).end();
}

}  // namespace weir::trace
