// What all commands of the tool share: common options, limits, output, and how a command is chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <weir/device.hpp>

#include "command_line.hpp"
#include "exit.hpp"
#include "json.hpp"

namespace tool {

/// The command line, once parsed.
struct Session {
  bool json = false;
  std::string device_name;           ///< empty: not asked for
  bool takes_devices = false;        ///< it may be several names, with commas between
  std::string trace_file;            ///< of a demo's timeline; empty: not asked for
  bool small = false;                ///< whether demos have small sizes
  std::vector<std::string> program;  ///< what stands behind "--", and its arguments
  bool takes_program = false;        ///< whether the command that was chosen does
  std::function<Exit()> run;         ///< set by the command that was chosen

  /// The device asked for, or the first one, else the default one. Throws UsageError saying what exists.
  weir::Device device() const;
  /// All that were asked for. Throws as device().
  std::vector<weir::Device> devices() const;
  /// Prints text for people; nothing with --json.
  void say(const std::string& text) const;
  /// Prints text that is for people, or for programs already.
  void print_text(const std::string& text) const;
  void print(const Json& value) const;
  /// The same on one line.
  void print_line(const Json& value) const;
};

/// The default device. Throws UsageError if the environment names one that does not exist.
weir::Device default_device();
/// Those of this machine, and the simulated ones.
std::vector<weir::Device> listed_devices();

/// Adds --device and --json.
void add_common_options(const Command& command, Session& session);

/// Throws UsageError unless lowest <= value <= highest. `option` is named in the message.
void check_range(const char* option, std::int64_t value, std::int64_t lowest, std::int64_t highest);
/// Throws UsageError if `arrays` arrays of `n` elements of 8 bytes fit neither in the device nor in the host.
void check_memory(const char* option, std::int64_t n, std::int64_t arrays_on_device, std::int64_t arrays_on_host,
                  weir::Device device);

/// Text that a terminal obeys only where it ends a line: other control characters are told by their codes. Names in files,
/// of devices, and what a command line has, may hold any.
std::string for_terminal(const std::string& text);
/// 20000000 as "20,000,000"
std::string grouped(std::uint64_t value);
/// Rounded to thousandths, for JSON.
double thousandths(double value);

void add_calibrate(const Command& app, Session& session);
void add_check(const Command& app, Session& session);
void add_devices(const Command& app, Session& session);
void add_demo(const Command& app, Session& session);
void add_graph(const Command& app, Session& session);
void add_predict(const Command& app, Session& session);
void add_ranks(const Command& app, Session& session);
void add_record(const Command& app, Session& session);
void add_run(const Command& app, Session& session);
void add_selftest(const Command& app, Session& session);
void add_trace(const Command& app, Session& session);

}  // namespace tool
