// Timelines of predictions: trace events for viewers, and pictures of lanes.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

#include <fmt/format.h>

#include "exit.hpp"
#include "json.hpp"
#include "prediction.hpp"

namespace tool {

using weir::sim::Engine;
using weir::sim::no_command;
using weir::sim::PredictedCommand;

namespace {

constexpr double lane_height = 28, left = 120, width = 1000, top = 40;

const char* colour(Engine engine) {
  switch (engine) {
    case Engine::h2d: return "#4477aa";
    case Engine::d2h: return "#ee6677";
    case Engine::peer: return "#66ccee";
    case Engine::kernel: return "#228833";
    case Engine::memory: return "#ccbb44";
    default: return "#aa3377";
  }
}

/// Text inside XML.
std::string escaped(const std::string& text) {
  std::string made;
  for (const char c : text) {
    made += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : c == '"' ? "&quot;" : std::string(1, c);
  }
  return made;
}

std::string name_of(const Predicted& predicted, const PredictedCommand& command) {
  if (command.command == no_command) return std::string(weir::sim::name_of(command.engine));
  const weir::recorded::Command& made = predicted.recording.command(command.command);
  const std::string id = id_of(predicted, command.command);
  return made.name == weir::recorded::none ? id : id + " " + predicted.recording.text(made.name);
}

std::string lane_name(const weir::Recording& recording, std::size_t lane) {
  return lane < recording.streams().size() ? recording.text(recording.streams()[lane].name) : std::string("other");
}

/// Of a stream; the one behind them is of what belongs to none.
std::size_t lane_of(const Predicted& predicted, const PredictedCommand& command) {
  return std::min<std::size_t>(command.stream, predicted.recording.streams().size());
}

Json trace(const Predicted& predicted) {
  Json events = Json::array();
  for (std::size_t lane = 0; lane <= predicted.recording.streams().size(); ++lane) {
    events.push_back({{"ph", "M"},
                      {"name", "thread_name"},
                      {"pid", 0},
                      {"tid", lane},
                      {"args", {{"name", lane_name(predicted.recording, lane)}}}});
  }
  for (const PredictedCommand& one : predicted.prediction.commands) {
    events.push_back(
        {{"ph", "X"},
         {"name", name_of(predicted, one)},
         {"cat", weir::sim::name_of(one.engine)},
         {"pid", 0},
         {"tid", lane_of(predicted, one)},
         {"ts", one.begin_us},
         {"dur", one.end_us - one.begin_us},
         {"args",
          {{"issued_us", one.issued_us}, {"ready_us", one.ready_us}, {"held_by", weir::sim::name_of(one.held_by)}}}});
  }
  return {{"displayTimeUnit", "ns"}, {"traceEvents", events}};
}

/// 1, 2 or 5 times a power of ten, so that some ten of them fill the whole.
double tick(double whole) {
  const double power = std::pow(10, std::floor(std::log10(std::max(whole, 1e-3) / 10)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (whole / (power * factor) <= 12) return power * factor;
  }
  return 10 * power;
}

std::string picture(const Predicted& predicted) {
  const double whole = std::max(predicted.prediction.makespan_us, 1e-3);
  std::vector<bool> used(predicted.recording.streams().size() + 1);
  for (const PredictedCommand& one : predicted.prediction.commands) used[lane_of(predicted, one)] = true;
  std::vector<double> y(used.size());
  double bottom = top;
  for (std::size_t lane = 0; lane < used.size(); ++lane) {
    y[lane] = bottom;
    if (used[lane]) bottom += lane_height;
  }
  const auto x = [&](double us) { return left + width * us / whole; };
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"8\" y=\"20\" "
      "font-size=\"14\">{} on {}: {}</text>\n",
      left + width + 20, bottom + 50, escaped(predicted.file), escaped(predicted.device),
      duration(predicted.prediction.makespan_us));
  for (double at = 0; at <= whole; at += tick(whole)) {
    svg += fmt::format("<line x1=\"{0:.2f}\" x2=\"{0:.2f}\" y1=\"{1:.0f}\" y2=\"{2:.0f}\" stroke=\"#dddddd\"/>\n",
                       x(at), top, bottom);
    svg += fmt::format("<text x=\"{:.2f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n", x(at), bottom + 16,
                       duration(at));
  }
  for (std::size_t lane = 0; lane < used.size(); ++lane) {
    if (!used[lane]) continue;
    svg += fmt::format("<text x=\"8\" y=\"{:.0f}\">{}</text>\n", y[lane] + 18,
                       escaped(lane_name(predicted.recording, lane)));
  }
  for (const PredictedCommand& one : predicted.prediction.commands) {
    svg += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{:.0f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"{}\" stroke=\"white\" "
        "stroke-width=\"0.5\"><title>{}, {} to {}</title></rect>\n",
        x(one.begin_us), y[lane_of(predicted, one)] + 3, std::max(0.5, x(one.end_us) - x(one.begin_us)),
        lane_height - 6, colour(one.engine), escaped(name_of(predicted, one)), duration(one.begin_us),
        duration(one.end_us));
  }
  double at = left;
  for (const Engine engine :
       {Engine::h2d, Engine::kernel, Engine::d2h, Engine::memory, Engine::peer, Engine::host_function}) {
    if (predicted.prediction.busy_us[static_cast<std::size_t>(engine)] <= 0) continue;
    svg += fmt::format(
        "<rect x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"12\" height=\"12\" fill=\"{2}\"/>\n<text x=\"{3:.0f}\" "
        "y=\"{4:.0f}\">{5}</text>\n",
        at, bottom + 28, colour(engine), at + 18, bottom + 38, weir::sim::name_of(engine));
    at += 120;
  }
  return svg + "</svg>\n";
}

}  // namespace

namespace {
std::runtime_error cannot_be_written(const std::string& path) {
  return std::runtime_error(fmt::format("--timeline {}: it cannot be written", path));
}
}  // namespace

void check_timeline(const std::string& path) {
  if (!path.ends_with(".json") && !path.ends_with(".svg"))
    throw UsageError(fmt::format("--timeline {}: its name ends in .json or .svg", path));
  // What is there stays until there is something to write; a pipe is opened once.
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (std::filesystem::is_other(status)) return;
  const bool there = std::filesystem::exists(std::filesystem::symlink_status(path, ignored));
  if (!std::ofstream(path, std::ios::app)) throw cannot_be_written(path);
  if (!there) std::filesystem::remove(path, ignored);
}

void write_timeline(const Predicted& predicted, const std::string& path) {
  const std::string text = path.ends_with(".svg") ? picture(predicted) : trace(predicted).line() + "\n";
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) throw cannot_be_written(path);
}

}  // namespace tool
