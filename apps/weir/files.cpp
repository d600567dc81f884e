// Scenario files that commands of the tool are given.
#include "files.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <weir/error.hpp>

#include "exit.hpp"

namespace tool {

std::vector<weir::Recording> load_scenarios(const std::vector<std::string>& files) {
  std::vector<weir::Recording> recordings;
  for (const std::string& file : files) {
    try {
      recordings.push_back(weir::load_recording(file, {}, {}));
    } catch (const weir::Error& error) {
      throw UsageError(error.what());
    }
  }
  return recordings;
}

void split_cpu(const std::string& device, const std::vector<weir::Recording>& recordings) {
  std::size_t needed = 1;
  for (const weir::Recording& recording : recordings) needed = std::max(needed, weir::devices_of(recording));
  if (device.rfind("cpu", 0) != 0 || needed == 1) return;
  const std::size_t first = device.size() > 4 ? std::strtoul(device.c_str() + 4, nullptr, 10) : 0;
  setenv("WEIR_CPU_DEVICES", std::to_string(first + needed).c_str(), 0);
}

void check_writable(const char* option, const std::string& path) {
  const std::string why = weir::why_unwritable(path);
  if (!why.empty()) throw UsageError(fmt::format("{} {}: it cannot be written: {}", option, path, why));
}

weir::RunResult run_loaded(const weir::Recording& recording, const weir::RunOptions& options, weir::RunHooks* hooks) {
  try {
    return weir::run_scenario(recording, options, hooks);
  } catch (const weir::Error& error) {
    if (error.errc() == weir::Errc::unknown_device) throw UsageError(fmt::format("--device: {}", error.what()));
    if (error.errc() == weir::Errc::invalid_value) throw UsageError(error.what());
    throw;
  }
}

}  // namespace tool
