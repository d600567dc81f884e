// What all commands of the tool share: exit codes, common options, and how a command is chosen and run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <weir/device.hpp>

namespace tool {

using Json = nlohmann::ordered_json;

/// What scripts get; the same numbers are in `weir --help`.
enum class Exit : int { ok = 0, wrong = 1, usage = 2, failed = 3 };

/// Something that the user asked for and cannot be had: one line on stderr, Exit::usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Commands do not finish although nothing holds them: the device cannot be used any more, nor the process ended normally.
class Stuck : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The command line, once parsed.
struct Session {
  bool json = false;
  std::string device_name;    ///< empty: not asked for
  std::function<Exit()> run;  ///< set by the command that was chosen

  /// The device asked for, else the default one. Throws UsageError saying what exists.
  weir::Device device() const;
  /// Prints text for people; nothing with --json.
  void say(const std::string& text) const;
  void print(const Json& value) const;
};

/// The default device. Throws UsageError if the environment names one that does not exist.
weir::Device default_device();

/// Adds --device and --json.
void add_common_options(CLI::App& app, Session& session);

/// Throws UsageError unless lowest <= value <= highest. `option` is named in the message.
void check_range(const char* option, std::int64_t value, std::int64_t lowest, std::int64_t highest);
/// Throws UsageError if `arrays` arrays of `n` elements of 8 bytes fit neither in the device nor in the host.
void check_memory(const char* option, std::int64_t n, std::int64_t arrays_on_device, std::int64_t arrays_on_host,
                  weir::Device device);

/// 20000000 as "20,000,000"
std::string grouped(std::uint64_t value);
/// Rounded to thousandths, for JSON.
double thousandths(double value);

void add_devices(CLI::App& app, Session& session);
void add_demo(CLI::App& app, Session& session);
void add_selftest(CLI::App& app, Session& session);

}  // namespace tool
