// Scenario files that commands of the tool are given.
#include "files.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <unistd.h>

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
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (status.type() == std::filesystem::file_type::fifo) return;  // to open it waits for who reads it
  // As weir::save does: a file is written beside the old one first.
  const bool beside = !std::filesystem::exists(status) || std::filesystem::is_regular_file(status);
  const std::string tried = beside ? fmt::format("{}.part{}", path, getpid()) : path;
  const int file = open(tried.c_str(), O_WRONLY | O_CLOEXEC | (beside ? O_CREAT : 0), 0666);
  if (file < 0)
    throw UsageError(
        fmt::format("{} {}: it cannot be written: {}", option, path, std::generic_category().message(errno)));
  close(file);
  if (beside) unlink(tried.c_str());
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
