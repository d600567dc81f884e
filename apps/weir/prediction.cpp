// Predictions as text and JSON. Names of scenarios hold nothing that JSON would escape.
#include "prediction.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "json.hpp"
#include "session.hpp"

namespace tool {

using weir::sim::Cause;
using weir::sim::Engine;
using weir::sim::no_command;
using weir::sim::Prediction;

namespace {

std::string percent(double part, double whole) { return fmt::format("{:.0f} %", whole > 0 ? 100 * part / whole : 0); }

std::string where(const Predicted& predicted, std::size_t command) {
  const weir::SourceLocation location = predicted.recording.where(command, predicted.file.c_str());
  return fmt::format("{}:{} ({})", location.file_name(), location.line(), id_of(predicted, command));
}

/// Of a cause, the command that the path spends most time with.
struct Worst {
  std::size_t command = no_command;
  double us = 0;
};

std::array<Worst, weir::sim::cause_count> worst_of(const Prediction& prediction) {
  std::map<std::pair<std::size_t, std::size_t>, double> sums;
  std::array<Worst, weir::sim::cause_count> worst;
  for (const weir::sim::PathPart& part : prediction.critical_path) {
    if (part.command == no_command) continue;
    const auto cause = static_cast<std::size_t>(part.cause);
    const double sum = sums[{cause, part.command}] += part.end_us - part.begin_us;
    if (sum > worst[cause].us) worst[cause] = {part.command, sum};
  }
  return worst;
}

std::string held_back(const Predicted& predicted) {
  const Prediction& prediction = predicted.prediction;
  const auto worst = worst_of(prediction);
  std::vector<std::size_t> causes;
  for (std::size_t i = 0; i < weir::sim::cause_count; ++i) {
    if (prediction.cause_us[i] >= 0.005 * prediction.makespan_us && prediction.cause_us[i] > 0) causes.push_back(i);
  }
  std::stable_sort(causes.begin(), causes.end(),
                   [&](std::size_t a, std::size_t b) { return prediction.cause_us[a] > prediction.cause_us[b]; });
  std::string text = "\nWhat held it back, along the critical path:\n";
  for (const std::size_t cause : causes) {
    text +=
        fmt::format("  {:<17}{:>12}  {:>5}", weir::sim::name_of(static_cast<Cause>(cause)),
                    duration(prediction.cause_us[cause]), percent(prediction.cause_us[cause], prediction.makespan_us));
    if (worst[cause].command != no_command)
      text += fmt::format("  most at {}, {}", where(predicted, worst[cause].command), duration(worst[cause].us));
    text += "\n";
  }
  return text;
}

/// What a device with other settings spends more of its critical path with: orders change, and more of a resource can make a program
/// longer.
std::vector<std::pair<std::size_t, double>> grown(const Prediction& prediction, const Prediction& plain) {
  std::vector<std::pair<std::size_t, double>> causes;
  const double least = 1e-3;  // a nanosecond: less is not shown
  if (prediction.makespan_us < plain.makespan_us + least) return causes;
  for (std::size_t i = 0; i < weir::sim::cause_count; ++i) {
    const double more = prediction.cause_us[i] - plain.cause_us[i];
    if (more >= least) causes.emplace_back(i, more);
  }
  std::stable_sort(causes.begin(), causes.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return causes;
}

std::string grown_text(const Predicted& predicted, const Prediction& plain) {
  const auto worst = worst_of(predicted.prediction);
  std::string text;
  for (const auto& [cause, us] : grown(predicted.prediction, plain)) {
    text += fmt::format("  {:<17}{:>12} more", weir::sim::name_of(static_cast<Cause>(cause)), duration(us));
    if (worst[cause].command != no_command) text += fmt::format(", most at {}", where(predicted, worst[cause].command));
    text += "\n";
  }
  return text.empty() ? text : "It takes longer, along the critical path by:\n" + text;
}

std::string gained(const Prediction& prediction) {
  if (prediction.gains.empty()) return {};
  std::string text = "\nWhat would gain:\n";
  for (const weir::sim::Gain& gain : prediction.gains) {
    text += fmt::format("  {:>10}, {:.0f} % less: {}\n", duration(gain.makespan_us),
                        100 * (1 - gain.makespan_us / prediction.makespan_us), gain.change);
  }
  return text;
}

// Lists may have a million elements: they are written as they go, not as values first.

std::string id_json(const Predicted& predicted, std::size_t command) {
  return command == no_command ? "null" : "\"" + id_of(predicted, command) + "\"";
}

std::string path_json(const Predicted& predicted) {
  std::string text;
  for (const weir::sim::PathPart& part : predicted.prediction.critical_path) {
    fmt::format_to(std::back_inserter(text), R"({}{{"cause":"{}","command":{},"begin_us":{},"end_us":{}}})",
                   text.empty() ? "" : ",", weir::sim::name_of(part.cause), id_json(predicted, part.command),
                   thousandths(part.begin_us), thousandths(part.end_us));
  }
  return text;
}

std::string commands_json(const Predicted& predicted) {
  std::string text;
  for (const weir::sim::PredictedCommand& one : predicted.prediction.commands) {
    const bool known = one.stream != weir::recorded::none;
    const char* stream = known ? predicted.recording.text(predicted.recording.streams()[one.stream].name) : "";
    fmt::format_to(
        std::back_inserter(text),
        R"({}{{"id":{},"stream":{}{}{},"engine":"{}","issued_us":{},"ready_us":{},"begin_us":{},"end_us":{},"held_by":"{}","holder":{}}})",
        text.empty() ? "" : ",", id_json(predicted, one.command), known ? "\"" : "", known ? stream : "null",
        known ? "\"" : "", weir::sim::name_of(one.engine), thousandths(one.issued_us), thousandths(one.ready_us),
        thousandths(one.begin_us), thousandths(one.end_us), weir::sim::name_of(one.held_by),
        id_json(predicted, one.holder));
  }
  return text;
}

}  // namespace

std::string id_of(const Predicted& predicted, std::size_t command) {
  const bool named = predicted.recording.command(command).id != weir::recorded::none;
  if (named || predicted.numbers.empty()) return predicted.recording.id(command);
  return "#" + std::to_string(predicted.numbers[command]);
}

std::vector<std::size_t> numbers_without_questions(const weir::Recording& recording) {
  std::vector<std::size_t> numbers;
  std::size_t next = 0;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    numbers.push_back(next);
    if (recording.command(i).op != weir::recorded::Op::query) ++next;
  }
  return numbers;
}

std::string duration(double us) {
  if (us >= 1e6) return fmt::format("{:.4g} s", us / 1e6);
  if (us >= 1e3) return fmt::format("{:.4g} ms", us / 1e3);
  return fmt::format("{:.4g} us", us);
}

std::string to_text(const Predicted& predicted, const Prediction* plain) {
  const Prediction& prediction = predicted.prediction;
  std::string text = fmt::format("{}: {} on {}", predicted.file, duration(prediction.makespan_us), predicted.device);
  if (prediction.high_us > prediction.low_us)
    text += fmt::format(" (9 in 10: {} to {})", duration(prediction.low_us), duration(prediction.high_us));
  text += "\n";
  if (plain != nullptr) {
    text += fmt::format("without --set: {}, so it is {:+.1f} %\n", duration(plain->makespan_us),
                        plain->makespan_us > 0 ? 100 * (prediction.makespan_us / plain->makespan_us - 1) : 0);
    text += grown_text(predicted, *plain);
  }
  text += "\nBusy:\n";
  for (std::size_t i = 0; i < weir::sim::engine_count; ++i) {
    const auto engine = static_cast<Engine>(i);
    if (engine == Engine::none || prediction.busy_us[i] <= 0) continue;
    text += fmt::format("  {:<17}{:>12}  {:>5}\n", weir::sim::name_of(engine), duration(prediction.busy_us[i]),
                        percent(prediction.busy_us[i], prediction.makespan_us));
  }
  text += fmt::format("  {:<17}{:>12}  {:>5}\n", "host, in calls", duration(prediction.host_us),
                      percent(prediction.host_us, prediction.makespan_us));
  std::string overlaps;
  for (const auto& [a, b] :
       {std::pair{Engine::h2d, Engine::d2h}, {Engine::h2d, Engine::kernel}, {Engine::d2h, Engine::kernel}}) {
    const auto busy = [&](Engine engine) { return prediction.busy_us[static_cast<std::size_t>(engine)] > 0; };
    if (busy(a) && busy(b)) {
      overlaps += fmt::format("  {:<17}{:.0f} % of the shorter\n",
                              fmt::format("{} and {}", weir::sim::name_of(a), weir::sim::name_of(b)),
                              100 * prediction.overlap(a, b));
    }
  }
  if (!overlaps.empty()) text += "\nBoth busy at once:\n" + overlaps;
  text += held_back(predicted) + gained(prediction);
  if (predicted.host_measured)
    text += "\nThe host's own computing took real time (--host measured): another run has other times.\n";
  for (const std::string& guess : prediction.estimated) text += "\nEstimated: " + guess + "\n";
  return text;
}

std::string to_json(const Predicted& predicted, const Prediction* plain) {
  const Prediction& prediction = predicted.prediction;
  Json gains = Json::array();
  for (const weir::sim::Gain& gain : prediction.gains)
    gains.push_back({{"change", gain.change}, {"makespan_us", thousandths(gain.makespan_us)}});
  const auto busy = [&](Engine engine) { return thousandths(prediction.busy_us[static_cast<std::size_t>(engine)]); };
  Json value = {{"format", "weir.prediction"},
                {"version", 1},
                {"program", predicted.file},
                {"device", predicted.device},
                {"host", predicted.host_measured ? "measured" : "said"},
                {"profile", prediction.profile},
                {"makespan_us", thousandths(prediction.makespan_us)},
                {"low_us", thousandths(prediction.low_us)},
                {"high_us", thousandths(prediction.high_us)},
                {"host_us", thousandths(prediction.host_us)},
                {"busy_us", {{"h2d", busy(Engine::h2d)}, {"d2h", busy(Engine::d2h)}, {"kernel", busy(Engine::kernel)}}},
                {"overlap_us",
                 {{"h2d_d2h", thousandths(prediction.h2d_d2h_us)},
                  {"h2d_kernel", thousandths(prediction.h2d_kernel_us)},
                  {"d2h_kernel", thousandths(prediction.d2h_kernel_us)}}},
                {"gains", gains},
                {"estimated", Json(prediction.estimated)}};
  if (plain != nullptr) {
    Json causes = Json::array();
    for (const auto& [cause, us] : grown(prediction, *plain))
      causes.push_back({{"cause", weir::sim::name_of(static_cast<Cause>(cause))}, {"more_us", thousandths(us)}});
    value["without_set"] = Json{{"makespan_us", thousandths(plain->makespan_us)}, {"grown", causes}};
  }
  std::string text = value.line();
  text.pop_back();
  return text + ",\"critical_path\":[" + path_json(predicted) + "],\"commands\":[" + commands_json(predicted) + "]}";
}

}  // namespace tool
