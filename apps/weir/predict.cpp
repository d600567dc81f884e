// `weir predict`: how long a scenario file or a program takes on a device that is not here.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <weir/device.hpp>
#include <weir/error.hpp>
#include <weir/recording.hpp>
#include <weir/sim.hpp>

#include "files.hpp"
#include "prediction.hpp"
#include "program.hpp"
#include "session.hpp"

namespace tool {

namespace {

struct Options {
  std::vector<std::string> files;
  std::vector<std::string> set;
  std::vector<std::string> expect;
  std::string timeline;
  bool by_bytes = false;
  bool as_cuda = false;
  std::string host;  ///< empty: as the environment says
};

constexpr const char* footer =
    "weir predict [options] -- PROGRAM ARGS... runs a program on a simulated device, records what it asks of it, and "
    "predicts\n"
    "that: results are right, and times are the model's. The device is the program's default one; what it names "
    "\"cuda\" "
    "or\n"
    "\"cuda:1\" is simulated with --as-cuda. Kernels last as weir::sim::set_cost() or the file that WEIR_SIM_COSTS "
    "names "
    "says,\n"
    "else as long as the bytes of their uses take.\n"
    "\n"
    "Of a FILE nothing is run: a model of the device says when each command begins and ends. docs/simulation.md tells "
    "what is\n"
    "modelled, how well, and all fields of profiles. Devices: sim:h200, sim:fermi-1-engine, sim:kepler-2-engines,\n"
    "sim:cc30, or sim:FILE.json.\n"
    "\n"
    "  --set link.h2d_gb_s=110 --set sms=66 --set copy_engines=1\n"
    "  --expect 'overlap(h2d, kernel) >= 0.8' --expect 'makespan <= 7 ms'\n"
    "\n"
    "Exit codes: 0, 1 an expectation is not met, 2 the command line or a file is wrong, 3 the program failed.";

/// The profile that a device's name means.
std::string profile_of(const std::string& device) {
  constexpr std::string_view prefix = "sim:";
  if (!std::string_view(device).starts_with(prefix))
    throw UsageError(fmt::format("--device {}: it is sim:PROFILE, such as sim:h200, or sim:FILE.json", device));
  std::string profile = device.substr(prefix.size());
  // Devices of one profile are alike.
  const std::size_t colon = profile.rfind(':');
  const bool numbered = colon != std::string::npos && colon + 1 < profile.size() && profile.size() - colon <= 4 &&
                        profile.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (numbered) profile.resize(colon);
  return profile;
}

/// What a file says of its devices; else sim:h200.
std::string device_of(const weir::Recording& recording) {
  std::string profile;
  for (const weir::recorded::Device& device : recording.devices()) {
    const std::string own(device.profile == weir::recorded::none ? "h200" : recording.text(device.profile));
    if (!profile.empty() && own != profile)
      throw UsageError(fmt::format("devices of {} and of {}: name one profile by --device", profile, own));
    profile = own;
  }
  if (profile.empty()) profile = "h200";
  return profile.starts_with("sim:") ? profile : "sim:" + profile;
}

weir::sim::Prediction predicted(const weir::Recording& recording, const weir::sim::PredictOptions& options) {
  try {
    return weir::sim::predict(recording, options, {});
  } catch (const weir::Error& error) {
    if (error.errc() == weir::Errc::invalid_value) throw UsageError(error.what());
    throw;
  }
}

bool is_simulated(const weir::Recording& recording, const weir::recorded::Device& device) {
  return std::string_view(recording.text(device.name)).starts_with("sim:");
}

/// Nothing ran on a simulated device: all that is known of the kernels is what they use.
bool simulates_nothing(const weir::Recording& recording) {
  const auto& devices = recording.devices();
  return std::none_of(devices.begin(), devices.end(),
                      [&](const weir::recorded::Device& device) { return is_simulated(recording, device); });
}

/// What the program's own computing takes.
std::string host_of(const Options& options) {
  const char* const by_environment = std::getenv("WEIR_SIM_HOST");
  const bool given = !options.host.empty();
  std::string how = given ? options.host : by_environment != nullptr ? by_environment : "";
  if (how.empty()) how = "said";
  if (how != "said" && how != "measured")
    throw UsageError(fmt::format("{} {}: it is said, or measured", given ? "--host" : "WEIR_SIM_HOST", how));
  return how;
}

/// What the program would be told when it opens the device.
void check_costs(const std::string& device) {
  const char* const costs = std::getenv("WEIR_SIM_COSTS");
  if (costs == nullptr || *costs == '\0') return;
  try {
    static_cast<void>(weir::device(device));
  } catch (const weir::Error& error) {
    throw UsageError(error.what());
  }
}

LoadedProgram run_simulated(const Session& session, const Options& options, const std::string& device,
                            const std::string& host) {
  Switches switches;
  if (options.as_cuda) switches.emplace_back("WEIR_AS_CUDA", device);
  switches.emplace_back("WEIR_SIM_HOST", host);
  return run_and_load(session.program, device, "predicted", switches);
}

Exit predict(const Session& session, const Options& options) {
  const bool runs = !session.program.empty();
  if (runs && !options.files.empty())
    throw UsageError(fmt::format("{}: either a file or a program", options.files.front()));
  if (!runs && options.files.empty()) throw UsageError("FILE is required, or -- PROGRAM (see weir predict --help)");
  if (options.files.size() > 1) throw UsageError(fmt::format("{}: one file at a time", options.files[1]));
  if (!runs && options.as_cuda) throw UsageError("--as-cuda is for programs, which stand behind --");
  if (!runs && !options.host.empty()) throw UsageError("--host is for programs, which stand behind --");
  const std::string host = runs ? host_of(options) : "said";
  if (!options.timeline.empty()) check_timeline(options.timeline);
  std::vector<weir::Recording> files;
  if (!runs) files = load_scenarios(options.files);
  std::string device = session.device_name;
  if (device.empty()) device = runs ? "sim:h200" : device_of(files.front());
  weir::sim::PredictOptions how{profile_of(device), {}, true, options.by_bytes, runs};
  try {
    for (const std::string& set : options.set) how.set.push_back(weir::sim::parse_setting(set, {}));
    for (const std::string& expectation : options.expect) weir::sim::unmet({}, expectation, {});
  } catch (const weir::Error& error) {
    throw UsageError(error.what());
  }
  LoadedProgram ended{weir::Recording(), 0};
  if (runs) {
    predicted(weir::Recording(), how);  // a wrong profile or setting is told before the program runs
    check_costs(device);
    ended = run_simulated(session, options, device, host);
    how.by_bytes = how.by_bytes || simulates_nothing(ended.recording);
  }
  const weir::Recording& recording = runs ? ended.recording : files.front();
  weir::sim::Prediction prediction = predicted(recording, how);
  if (runs && simulates_nothing(recording) && recording.size() > 0)
    prediction.estimated.emplace_back(
        "no stream of a simulated device was used: all of it is predicted as if it were one");
  const Predicted shown{
      recording, prediction,         runs ? session.program.front() : options.files.front(),
      device,    host == "measured", runs ? numbers_without_questions(recording) : std::vector<std::size_t>()};
  std::optional<weir::sim::Prediction> as_it_is;
  if (!how.set.empty()) {
    how.set.clear();
    how.gains = false;
    as_it_is = predicted(recording, how);
  }
  const weir::sim::Prediction* const plain = as_it_is ? &*as_it_is : nullptr;
  if (session.json) {
    const std::string line = to_json(shown, plain) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);
  } else {
    session.say(to_text(shown, plain));
  }
  if (!options.timeline.empty()) write_timeline(shown, options.timeline);
  Exit code = ended.code == 0 ? Exit::ok : Exit::failed;
  for (const std::string& expectation : options.expect) {
    const std::string instead = weir::sim::unmet(prediction, expectation, {});
    if (instead.empty()) continue;
    fmt::print(stderr, "weir: --expect '{}' is not met: {}\n", for_terminal(expectation), for_terminal(instead));
    code = Exit::wrong;
  }
  return code;
}

}  // namespace

void add_predict(const Command& app, Session& session) {
  const Command command = app.add("predict", "Predicts how long a scenario takes on a GPU that is not here");
  const auto options = std::make_shared<Options>();
  command.operands("FILE", options->files, "a scenario file, plain or gzip");
  command.name("--device", session.device_name, "NAME", "sim:PROFILE or sim:FILE.json; left out: sim:h200");
  command.flag("--json", session.json, "Write JSON for programs instead of text for people");
  command.flag("--by-bytes", options->by_bytes,
               "kernels last as the bytes that they use take, as for a recording of a CPU");
  command.flag("--as-cuda", options->as_cuda,
               "the simulated device stands for the program's \"cuda\", \"cuda:1\", ...");
  command.name("--host", options->host, "HOW",
               "the program's own computing takes what weir::sim::host_work() says: said; or real time: measured");
  command.names("--set", options->set, "FIELD=NUMBER", "what if: a field of the profile is another; may be repeated");
  command.names("--expect", options->expect, "TEXT", "exit 1 unless it holds; may be repeated");
  command.name("--timeline", options->timeline, "FILE", "write trace events (.json) or a picture (.svg)");
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return predict(session, *options); };
  });
}

}  // namespace tool
