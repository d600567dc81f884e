#include "trace/best_rates.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>

#include <dlfcn.h>

#include "thread_safety.hpp"

namespace weir::trace {

namespace {

/// What a lane of each generation carries, before what packets take.
struct Generation {
  const char* name;
  double transfers;  ///< a second
  double bits;       ///< of each transfer that are data
};
constexpr std::array generations = {
    Generation{"1.0", 2.5e9, 8.0 / 10},   Generation{"2.0", 5e9, 8.0 / 10},     Generation{"3.0", 8e9, 128.0 / 130},
    Generation{"4.0", 16e9, 128.0 / 130}, Generation{"5.0", 32e9, 128.0 / 130}, Generation{"6.0", 64e9, 242.0 / 256},
};
constexpr unsigned most_lanes = 32;

struct Link {
  std::size_t generation = 0;
  unsigned lanes = 0;

  std::uint64_t bytes_per_second() const {
    const Generation& one = generations[generation];
    return static_cast<std::uint64_t>(one.transfers * one.bits / 8 * lanes);
  }
  bool known() const { return lanes > 0; }
};

KnownRates rates_of(const Link& link) {
  if (!link.known()) return {};
  const std::uint64_t rate = link.bytes_per_second();
  return {rate, rate,
          std::string("PCIe ") + generations[link.generation].name + " x" + std::to_string(link.lanes) + ", raw"};
}

/// "32.0 GT/s PCIe" and "16", as Linux writes them; "Unknown" and 255 where it does not know.
Link link_in(const std::filesystem::path& folder) {
  std::ifstream speed_file(folder / "max_link_speed"), lanes_file(folder / "max_link_width");
  double speed = 0;
  unsigned lanes = 0;
  if (!(speed_file >> speed) || !(lanes_file >> lanes) || lanes == 0 || lanes > most_lanes) return {};
  for (std::size_t i = 0; i < generations.size(); ++i) {
    if (generations[i].transfers == speed * 1e9) return {i, lanes};
  }
  return {};
}

template <class F>
F* function(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<F*>(dlsym(library, name));
}

/// "0000:17:00.0"; empty where there is no driver, or no such device. Only of a driver that the program uses already.
std::string bus_id_of(int number) {
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  const auto get = function<int(int*, int)>(driver, "cuDeviceGet");
  const auto get_id = function<int(char*, int, int)>(driver, "cuDeviceGetPCIBusId");
  std::string id;
  int device = 0;
  char text[32] = {};
  if (get != nullptr && get_id != nullptr && get(&device, number) == 0 && get_id(text, sizeof text, device) == 0) {
    id = text;
    std::transform(id.begin(), id.end(), id.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  if (driver != nullptr) dlclose(driver);
  return id;
}

/// By NVML, which knows of the slot, too, and is there where a container shows no devices of the bus.
Link link_by_nvml(const std::string& bus_id) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_LAZY | RTLD_LOCAL);
  const auto start = function<int()>(library, "nvmlInit_v2");
  const auto stop = function<int()>(library, "nvmlShutdown");
  const auto find = function<int(const char*, void**)>(library, "nvmlDeviceGetHandleByPciBusId_v2");
  const auto generation = function<int(void*, unsigned*)>(library, "nvmlDeviceGetMaxPcieLinkGeneration");
  const auto width = function<int(void*, unsigned*)>(library, "nvmlDeviceGetMaxPcieLinkWidth");
  Link made;
  const bool has_all =
      start != nullptr && stop != nullptr && find != nullptr && generation != nullptr && width != nullptr;
  if (has_all && start() == 0) {
    void* device = nullptr;
    unsigned number = 0, lanes = 0;
    const bool told =
        find(bus_id.c_str(), &device) == 0 && generation(device, &number) == 0 && width(device, &lanes) == 0;
    if (told && number >= 1 && number <= generations.size() && lanes >= 1 && lanes <= most_lanes) {
      made = {number - 1, lanes};
    }
    stop();
  }
  if (library != nullptr) dlclose(library);
  return made;
}

KnownRates ask_for_gpu(int number) {
  const std::string bus_id = bus_id_of(number);
  if (bus_id.empty()) return {};
  const KnownRates by_linux = rates_of_pcie(std::filesystem::path("/sys/bus/pci/devices") / bus_id);
  return by_linux.source.empty() ? rates_of(link_by_nvml(bus_id)) : by_linux;
}

/// The number of "cuda:1"; -1 of other devices.
int number_of_gpu(std::string_view name) {
  constexpr std::string_view kind = "cuda:";
  if (!name.starts_with(kind)) return -1;
  name.remove_prefix(kind.size());
  int number = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : -1;
}

}  // namespace

KnownRates rates_of_pcie(const std::filesystem::path& device) {
  std::error_code wrong;
  std::filesystem::path folder = std::filesystem::canonical(device, wrong);
  if (wrong) return {};
  Link least = link_in(folder);
  if (!least.known()) return {};
  // The ports above stand around it, up to the root, which has no link.
  for (folder = folder.parent_path(); std::filesystem::exists(folder / "max_link_speed", wrong);
       folder = folder.parent_path()) {
    const Link port = link_in(folder);
    if (port.known() && port.bytes_per_second() < least.bytes_per_second()) least = port;
  }
  return rates_of(least);
}

KnownRates rates_of_gpu(int number) {
  static auto& mutex = *new detail::Mutex;
  static auto& known = *new std::map<int, KnownRates>;
  const detail::LockGuard lock(mutex);
  if (const auto at = known.find(number); at != known.end()) return at->second;
  return known[number] = ask_for_gpu(number);
}

void set_best_rates(Timeline& timeline, std::uint32_t device, const KnownRates& rates) {
  if (rates.source.empty()) return;
  timeline.best_rates.resize(timeline.devices.size());
  const auto at = std::find(timeline.texts.begin(), timeline.texts.end(), rates.source);
  const auto source = static_cast<Text>(at - timeline.texts.begin());
  if (at == timeline.texts.end()) timeline.texts.push_back(rates.source);
  timeline.best_rates[device] = {rates.copy_in, rates.copy_out, source};
}

void set_best_rates_of_gpus(Timeline& timeline) {
  for (std::uint32_t i = 0; i < timeline.devices.size(); ++i) {
    const int number = number_of_gpu(timeline.text(timeline.devices[i]));
    if (number >= 0) set_best_rates(timeline, i, rates_of_gpu(number));
  }
}

}  // namespace weir::trace
