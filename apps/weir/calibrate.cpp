// `weir calibrate`: measures a GPU, and writes the profile of a simulated device like it.
#include "calibrate.hpp"

#include <memory>
#include <optional>

#include <fmt/format.h>

#include "measure.hpp"
#include "progress.hpp"

namespace tool {

namespace {

constexpr int oldest = 5;  ///< compute capability

struct Options {
  std::vector<std::string> devices;
  std::string file;
  bool kernels = false;
};

constexpr const char* footer =
    "Measures what calls cost, how copies and kernels follow each other, and rates, with small programs that take\n"
    "about a minute at most. The file is a profile: sim:card.json is a device whose clock goes by it, and weir\n"
    "predict takes it, too. A field that cannot be seen from outside is the H200's, and its source says so. Nothing\n"
    "else should use the GPU meanwhile. A simulated device is measured by its own clock, which gives back its "
    "profile.\n"
    "\n"
    "weir calibrate --kernels -o costs.json -- PROGRAM ARGS... runs a program on the device, and writes how long its\n"
    "kernels last, as the median by name: WEIR_SIM_COSTS=costs.json makes them last as long on simulated devices.\n"
    "\nExample:  weir calibrate cuda:0 -o card.json && weir predict --device sim:card.json -- ./app";

void take_device(Session& session, const Options& options) {
  if (options.devices.size() > 1) throw UsageError(fmt::format("{}: one device at a time", options.devices[1]));
  if (!options.devices.empty() && !session.device_name.empty())
    throw UsageError(fmt::format("{}: --device names {} already", options.devices.front(), session.device_name));
  if (!options.devices.empty()) session.device_name = options.devices.front();
}

[[noreturn]] void refuse_cpu(const std::string& name) {
  throw UsageError(
      fmt::format("{} is a CPU: profiles are those of GPUs, whose copies, kernels and host go beside each "
                  "other, and a CPU's times say nothing about them",
                  name));
}

weir::Device device_of(Session& session) {
  if (session.device_name.empty()) {
    const std::string reason = weir::why_absent("cuda");
    if (!reason.empty())
      throw UsageError(fmt::format(
          "there is no GPU to measure ({}); simulated devices are measured if they are named, as sim:h200 is", reason));
    session.device_name = "cuda:0";
  }
  const weir::Device device = session.device();
  if (device.backend() == "cpu") refuse_cpu(device.name());
  const weir::ComputeCapability capability = device.properties().compute_capability;
  if (capability.major < oldest)
    throw UsageError(
        fmt::format("{} has compute capability {}.{}: the orders in which devices before {}.0 serve copies "
                    "and launches are not measured",
                    device.name(), capability.major, capability.minor, oldest));
  return device;
}

/// As in profiles: a simulated device adds to its profile's name.
std::string name_of(weir::Device device) {
  std::string name = device.properties().name;
  constexpr std::string_view simulated = ", simulated";
  if (device.backend() == "sim" && name.ends_with(simulated)) name.resize(name.size() - simulated.size());
  return name;
}

std::vector<Fields> measured(weir::Device device) {
  Bench bench(device);
  // A virtual clock gives the same times each time.
  const int rounds = bench.simulated ? 1 : 6;
  const auto begin = std::chrono::steady_clock::now();
  constexpr void (*parts[])(const Bench&, Fields&) = {measure_host, measure_copies, measure_kernels, measure_order,
                                                      measure_memory};
  Progress progress("calibrating", static_cast<std::size_t>(rounds) * std::size(parts));
  std::vector<Fields> found;
  for (int round = 0; round < rounds; ++round) {
    if (!found.empty() && std::chrono::steady_clock::now() - begin > std::chrono::minutes(1)) break;
    const bool warm_up = round == 0 && !bench.simulated;
    bench.set_repeats(bench.simulated || warm_up ? 1 : 5);
    Fields fields;
    for (const auto part : parts) {
      part(bench, fields);
      progress.step();
    }
    if (!warm_up) found.push_back(std::move(fields));
  }
  return found;
}

std::string table(const std::vector<CardField>& card) {
  std::string text = fmt::format("{:<32}{:>12}{:>24}{:>12}  unit\n", "field", "value", "spread", "h200");
  for (const CardField& field : card) {
    const std::string spread = !field.measured ? "not measured"
                               : field.least < field.greatest
                                   ? fmt::format("{:.4g} to {:.4g}", field.least, field.greatest)
                                   : "";
    text += fmt::format("{:<32}{:>12.4g}{:>24}{:>12.4g}  {}\n", field.full_name(), field.value, spread, field.shipped,
                        field.unit);
  }
  return text;
}

Json json_of(const std::vector<CardField>& card) {
  Json fields = Json::array();
  for (const CardField& field : card) {
    fields.push_back({{"field", field.full_name()},
                      {"value", field.value},
                      {"least", field.least},
                      {"greatest", field.greatest},
                      {"unit", field.unit},
                      {"measured", field.measured},
                      {"h200", field.shipped}});
  }
  return fields;
}

Exit calibrate(Session& session, const Options& options) {
  take_device(session, options);
  if (options.kernels != !session.program.empty())
    throw UsageError(options.kernels ? "--kernels takes a program: weir calibrate --kernels -- PROGRAM"
                                     : "-- PROGRAM goes with --kernels (see weir calibrate --help)");
  if (options.kernels) {
    const std::string name = session.device_name.empty() ? "cuda:0" : session.device_name;
    if (name.starts_with("cpu")) refuse_cpu(name);
    return calibrate_kernels(session, name, options.file);
  }
  const weir::Device device = device_of(session);
  std::optional<WholeFile> file;
  if (!options.file.empty()) file.emplace(options.file);
  const auto begin = std::chrono::steady_clock::now();
  const std::string name = name_of(device);
  const std::vector<CardField> card = card_of(measured(device), device.name());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  if (file) file->finish(card_text(card, name, fmt::format("{}, measured by weir calibrate {}", name, device.name())));
  session.say(table(card));
  session.say(fmt::format("{}{} in {:.1f} s: medians of rounds, with the least and the greatest.\n",
                          options.file.empty() ? "" : options.file + ": ", name, took.count()));
  if (session.json)
    session.print({{"device", device.name()}, {"name", name}, {"file", options.file}, {"fields", json_of(card)}});
  return Exit::ok;
}

}  // namespace

void add_calibrate(const Command& app, Session& session) {
  const Command command = app.add("calibrate", "Measures a GPU: a profile for simulated devices and predictions");
  const auto options = std::make_shared<Options>();
  command.operands("DEVICE", options->devices, "cuda:1; left out: cuda:0");
  command.name("-o,--output", options->file, "FILE", "write the profile there; left out: it is only shown");
  command.flag("--kernels", options->kernels, "measure the kernels of -- PROGRAM instead of the device");
  add_common_options(command, session);
  command.footer(footer);
  command.when_given([&session, options] {
    session.takes_program = true;
    session.run = [&session, options] { return calibrate(session, *options); };
  });
}

}  // namespace tool
