// `weir calibrate --kernels -- PROGRAM`: how long a program's kernels last on its device, as a file for WEIR_SIM_COSTS.
#include <map>
#include <optional>
#include <stdexcept>

#include <fmt/format.h>

#include <weir/recording.hpp>

#include "calibrate.hpp"
#include "measure.hpp"
#include "program.hpp"

namespace tool {

namespace {

/// In microseconds, by the names that launches or functors have.
std::map<std::string, Times> kernels_of(const weir::Recording& recording) {
  std::map<std::string, Times> kernels;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    const weir::recorded::Command& command = recording.command(i);
    const std::optional<weir::recorded::Cost> cost = recording.cost(command);
    if (command.op != weir::recorded::Op::launch || command.name == weir::recorded::none || !cost || !cost->ns)
      continue;
    kernels[recording.text(command.name)].add(*cost->ns / 1000);
  }
  return kernels;
}

}  // namespace

Exit calibrate_kernels(const Session& session, const std::string& device, const std::string& path) {
  std::optional<WholeFile> file;
  if (!path.empty()) file.emplace(path);
  // No device is asked for here: its threads would be in the way of starting the program.
  const LoadedProgram ended = run_and_load(session.program, device, "measured");
  if (ended.code != 0)
    throw std::runtime_error(
        fmt::format("{} ended with exit code {}: nothing was measured", session.program.front(), ended.code));
  const std::map<std::string, Times> kernels = kernels_of(ended.recording);
  if (kernels.empty())
    throw std::runtime_error(
        fmt::format("{} launched no kernel whose duration is known: nothing was measured", session.program.front()));

  std::string costs,
      table = fmt::format("{:<40}{:>10}{:>14}{:>14}{:>14}\n", "kernel, us", "launches", "median", "least", "greatest");
  Json list = Json::array();
  for (const auto& [name, times] : kernels) {
    const double us = times.median();
    costs +=
        fmt::format("{}\n  {{\"name\": {}, \"ns\": {:.0f}}}", costs.empty() ? "" : ",", Json(name).line(), 1000 * us);
    table += fmt::format("{:<40}{:>10}{:>14.2f}{:>14.2f}{:>14.2f}\n", name, times.count(), us, times.least(),
                         times.greatest());
    list.push_back({{"name", name},
                    {"launches", times.count()},
                    {"median_us", thousandths(us)},
                    {"least_us", thousandths(times.least())},
                    {"greatest_us", thousandths(times.greatest())}});
  }
  if (file) file->finish(fmt::format("{{\"kernels\": [{}\n]}}\n", costs));
  session.say(table);
  if (session.json)
    session.print({{"device", device}, {"program", session.program}, {"file", path}, {"kernels", list}});
  return Exit::ok;
}

}  // namespace tool
