// What copies of a device can reach at best, as far as somebody tells it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <weir/trace.hpp>

namespace weir::trace {

/// BestRates before their source is a text of a timeline.
struct KnownRates {
  std::uint64_t copy_in = 0;
  std::uint64_t copy_out = 0;
  std::string source;  ///< empty: nothing is known
};

/// The least of the PCIe links that lead to a device, whose folder in /sys/bus/pci/devices that is: of its own, and of the ports
/// above it. Nothing where Linux does not know.
KnownRates rates_of_pcie(const std::filesystem::path& device);

/// Of the device that CUDA gives this number in the process: by Linux, else by the driver's library for management (NVML). Each is
/// asked for once. Any thread.
KnownRates rates_of_gpu(int number);

/// To be given for each device that something is known of; the others stay unknown.
void set_best_rates(Timeline& timeline, std::uint32_t device, const KnownRates& rates);

/// Those of all devices "cuda:0", "cuda:1" and so on.
void set_best_rates_of_gpus(Timeline& timeline);

}  // namespace weir::trace
