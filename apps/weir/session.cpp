// Options, limits and output that all commands of the tool share.
#include "session.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include <weir/error.hpp>

namespace tool {

namespace {

std::string device_list() {
  std::string list;
  for (const weir::Device device : listed_devices()) list += (list.empty() ? "" : ", ") + device.name();
  return list;
}

/// `source` is where the name comes from, for the message.
weir::Device find_device(const char* source, const std::string& name) {
  try {
    return weir::device(name);
  } catch (const weir::Error& error) {
    if (error.errc() != weir::Errc::unknown_device) throw;
    const std::string reason = weir::why_absent(name);
    throw UsageError(fmt::format("{}: no device \"{}\"{}; there is: {}", source, name,
                                 reason.empty() ? "" : " (" + reason + ")", device_list()));
  }
}

/// What the system could give away now; 0 if it does not say.
double available_host_bytes() {
  std::ifstream information("/proc/meminfo");
  std::string key;
  double kibibytes = 0;
  for (std::string rest; information >> key >> kibibytes; std::getline(information, rest)) {
    if (key == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

std::string gibibytes(double bytes) { return fmt::format("{:.1f} GiB", bytes / (1024.0 * 1024 * 1024)); }

}  // namespace

std::vector<weir::Device> listed_devices() {
  // One of a file, or a second one of a profile, is there once it has been asked for.
  const char* wanted = std::getenv("WEIR_DEVICE");
  if (wanted != nullptr && std::string_view(wanted).starts_with("sim:")) {
    try {
      static_cast<void>(weir::device(wanted));
    } catch (const weir::Error&) {
      // Who uses it is told.
    }
  }
  std::vector<weir::Device> list = weir::devices();
  const std::vector<weir::Device> simulated = weir::devices("sim");
  list.insert(list.end(), simulated.begin(), simulated.end());
  return list;
}

weir::Device Session::device() const {
  return device_name.empty() ? default_device()
         : takes_devices     ? devices().front()
                             : find_device("--device", device_name);
}

std::vector<weir::Device> Session::devices() const {
  std::vector<weir::Device> all;
  std::istringstream names(device_name);
  for (std::string name; std::getline(names, name, ',');) all.push_back(find_device("--device", name));
  if (all.empty()) all.push_back(find_device("--device", device_name));
  return all;
}

weir::Device default_device() {
  const char* wanted = std::getenv("WEIR_DEVICE");
  return wanted == nullptr || *wanted == '\0' ? weir::default_device() : find_device("WEIR_DEVICE", wanted);
}

void Session::say(const std::string& text) const {
  if (!json) print_text(for_terminal(text));
}

void Session::print_text(const std::string& text) const { std::fwrite(text.data(), 1, text.size(), stdout); }
void Session::print(const Json& value) const { print_text(value.text() + "\n"); }
void Session::print_line(const Json& value) const { print_text(value.line() + "\n"); }

void add_common_options(const Command& command, Session& session) {
  command.name("--device", session.device_name, "NAME", "Device by name, as `weir devices` lists them");
  command.flag("--json", session.json, "Write JSON for programs instead of text for people");
}

void check_range(const char* option, std::int64_t value, std::int64_t lowest, std::int64_t highest) {
  if (value >= lowest && value <= highest) return;
  throw UsageError(fmt::format("{} {}: must be {} to {}", option, value, lowest, highest));
}

void check_memory(const char* option, std::int64_t n, std::int64_t arrays_on_device, std::int64_t arrays_on_host,
                  weir::Device device) {
  const double array_bytes = 8.0 * static_cast<double>(n);
  const double on_device = array_bytes * static_cast<double>(arrays_on_device);
  const double on_host = array_bytes * static_cast<double>(arrays_on_host);
  const double device_bytes = static_cast<double>(device.properties().memory);
  if (on_device > device_bytes) {
    throw UsageError(fmt::format("{} {}: needs {} on {}, which has {}", option, n, gibibytes(on_device), device.name(),
                                 gibibytes(device_bytes)));
  }
  const double needed = device.backend() == "cuda" ? on_host : on_host + on_device;
  const double available = available_host_bytes();
  if (available > 0 && needed > available) {
    throw UsageError(fmt::format("{} {}: needs {} of host memory, of which {} is available", option, n,
                                 gibibytes(needed), gibibytes(available)));
  }
}

std::string for_terminal(const std::string& text) {
  std::string made;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0U; };
    const bool is_long = byte(i) == 0xc2 && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;  // U+0080 to U+009F
    const bool is_short = (byte(i) < 0x20 && text[i] != '\n' && text[i] != '\t') || byte(i) == 0x7f;
    if (is_long) ++i;
    made += is_long || is_short ? fmt::format("\\x{:02x}", byte(i)) : std::string(1, text[i]);
  }
  return made;
}

std::string grouped(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

double thousandths(double value) { return std::round(value * 1000) / 1000; }

}  // namespace tool
