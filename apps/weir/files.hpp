// Scenario files that commands of the tool are given.
#pragma once

#include <string>
#include <vector>

#include <weir/recording.hpp>
#include <weir/scenario.hpp>

namespace tool {

/// Throws UsageError with the member's path.
std::vector<weir::Recording> load_scenarios(const std::vector<std::string>& files);

/// Before the library looks: scenarios may need more devices than the CPU is split into by itself.
void split_cpu(const std::string& device, const std::vector<weir::Recording>& recordings);

/// Throws UsageError, which names the option, where no file of that path can be written. What is there stays as it is.
void check_writable(const char* option, const std::string& path);

/// Throws UsageError where the device does not exist, or the scenario cannot be run.
weir::RunResult run_loaded(const weir::Recording& recording, const weir::RunOptions& options,
                           weir::RunHooks* hooks = nullptr);

}  // namespace tool
