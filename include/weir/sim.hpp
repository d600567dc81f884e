// Predictions: how long a program takes on a device that is not here, by a model of it. What is about simulated devices is in
// the library weir::weir; predictions and timelines are in weir::tools.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/detail/durations.hpp>
#include <weir/device.hpp>
#include <weir/op.hpp>
#include <weir/recording.hpp>
#include <weir/source_location.hpp>

namespace weir::sim {

/// Tells the clock of simulated devices that the calling thread computes for this long: otherwise it does not know what a program
/// does between its calls, unless WEIR_SIM_HOST=measured makes it count real time. Observers are told. Without simulated devices
/// it does nothing. In a host function of a simulated device it makes the function last so much longer, beside the time of the
/// profile; one that set_cost() says something of lasts so long at least. In a loop that asks done() and goes on only because
/// the real work is late it does not count. Throws invalid_value. Any thread.
void host_work(std::chrono::nanoseconds time, SourceLocation where = SourceLocation::current());

/// What launches of a kernel cost on simulated devices from here on: `kernel` is the name that the launch was given, or the
/// functor's, with or without its namespaces; or of a host function or foreign work the line that enqueued it, as
/// "pipeline.cpp:41". It goes before what the file that WEIR_SIM_COSTS names says. A launch without a
/// cost lasts as long as the bytes of its uses take. Threads and blocks that are not said are the launch's. Throws
/// invalid_value. Any thread.
void set_cost(std::string_view kernel, const recorded::Cost& cost, SourceLocation where = SourceLocation::current());

/// What was said of a launch by set_cost() or the file, with its blocks and threads where time goes by blocks; nothing where
/// nobody said anything. For observers. Any thread.
std::optional<recorded::Cost> cost_of(const Launch& launch);
/// The same of any command that was made there: also of host functions and foreign work.
std::optional<recorded::Cost> cost_of(const Op& op, SourceLocation where);
/// How long a host function of a simulated device has worked, by host_work() inside it or measured. 0 if it is not over, said
/// nothing, or is one of a graph. For observers. Any thread.
std::chrono::nanoseconds worked_in(CommandId host_function);
struct WorkedNode {
  std::uint32_t node;  ///< its place in GraphInfo::nodes
  std::chrono::nanoseconds time;
};
/// The same of those of a graph in one launch of it, but for those in conditional nodes: which worked, and how long. Any thread.
std::vector<WorkedNode> worked_in_nodes(CommandId launch);

/// The profiles inside the library: "h200", ...
std::vector<std::string> profile_names();
/// One of them as a file, for another one to begin with. Throws unknown_device.
std::string_view profile_text(std::string_view name);

/// What the link of a simulated device carries at best, by its profile.
struct LinkRates {
  std::string profile;   ///< its name
  double to_device = 0;  ///< bytes per second, of pinned memory
  double from_device = 0;
};
/// Throws invalid_value for a device that is not simulated. Any thread.
LinkRates link_rates(Device device, SourceLocation where = SourceLocation::current());

/// A field of the profile, such as "link.h2d_gb_s", and the value to use instead.
struct Setting {
  std::string field;
  double value = 0;
};

struct PredictOptions {
  std::string profile = "h200";  ///< a profile's name, or the path of a file that ends in .json
  std::vector<Setting> set = {};
  bool gains = true;  ///< also predict what changes would gain
  /// Kernels last as long as the bytes of their uses take, whatever their costs say: for recordings of another device.
  bool by_bytes = false;
  /// Pageable copies and the number of work queues are Weir's own, as on simulated devices, and not those of the raw calls of
  /// CUDA: for recordings of programs.
  bool own_copies = false;
};

inline constexpr std::size_t no_command = std::numeric_limits<std::size_t>::max();

enum class Engine : std::uint8_t { h2d, d2h, peer, kernel, memory, host_function, none };
inline constexpr std::size_t engine_count = 7;
/// "h2d"; "memory" are fills and copies within a device, "none" is work of the host, and graphs' beginnings and ends.
std::string_view name_of(Engine engine);

/// Where the time of a program goes, and why a command did not begin earlier.
enum class Cause : std::uint8_t {
  link,            ///< a copy moves, or waits for one that does
  kernels,         ///< a kernel runs
  memory,          ///< a fill or a copy within the device runs
  host_functions,  ///< one runs, or waits for another one
  host,            ///< calls cost time, and computing between them
  order,           ///< a command that it comes behind
  hops,            ///< from one engine to another
  copy_order,      ///< a copy engine waits for a copy that was issued earlier
  full_device,     ///< no places on the multiprocessors
  check,           ///< the dependency check of older devices
  legacy_barrier,  ///< the legacy stream, and implicit synchronisation
  pageable,        ///< a copy of pageable memory
  work_queue,      ///< a work queue that several streams share
};
inline constexpr std::size_t cause_count = 13;
/// "full device".
std::string_view name_of(Cause cause);

/// When a command runs, in microseconds since the first call.
struct PredictedCommand {
  std::size_t command = no_command;  ///< its place in the recording; several have one: the nodes of a launched graph
  std::uint32_t stream = recorded::none;
  Engine engine = Engine::none;
  Cause held_by = Cause::host;
  std::size_t holder = no_command;  ///< the place of the command that held it, if one did
  double issued_us = 0;
  double ready_us = 0;
  double begin_us = 0;
  double end_us = 0;
  double last_block_us = 0;  ///< of a kernel: when its last block begins
};

/// A part of the critical path; all of them together are the makespan.
struct PathPart {
  Cause cause = Cause::host;
  std::size_t command = no_command;
  double begin_us = 0;
  double end_us = 0;
};

/// How a change would alter the makespan.
struct Gain {
  std::string change;  ///< "--set link.h2d_gb_s=111", or what to do
  double makespan_us = 0;
};

struct Prediction {
  std::string profile;
  double makespan_us = 0;  ///< from the first call to the end of all work and waits
  double low_us = 0;       ///< the 90 % interval
  double high_us = 0;
  double host_us = 0;  ///< that calls took, without waiting
  std::array<double, engine_count> busy_us = {};
  /// Of two engines, both busy: h2d and d2h, h2d and kernel, d2h and kernel.
  double h2d_d2h_us = 0;
  double h2d_kernel_us = 0;
  double d2h_kernel_us = 0;
  std::vector<PredictedCommand> commands;         ///< in the order of issue
  std::vector<PathPart> critical_path;            ///< from the beginning to the end
  std::array<double, cause_count> cause_us = {};  ///< of the critical path
  std::vector<Gain> gains;                        ///< the greatest first
  std::vector<std::string> estimated;             ///< what had to be guessed

  /// Time with both busy over the shorter busy time of h2d, d2h and kernel; 0 where one is never busy.
  double overlap(Engine a, Engine b) const;
};

/// Runs nothing: every time is the model's, the same for the same recording, profile and settings. Throws invalid_value, with
/// the name of the field or the id of the command, for profiles and settings that make no sense, commands that fit on no device
/// of the profile, and programs that wait for ever.
Prediction predict(const Recording& recording, const PredictOptions& options = {},
                   SourceLocation where = SourceLocation::current());

/// What simulated devices of one profile have done by now, with times since the first call that is kept: the last 100,000
/// commands at least, without those that are not over. `command` is the one's id, as observers see it. Throws invalid_value for
/// a device that is not simulated. Any thread.
Prediction timeline(Device device, SourceLocation where = SourceLocation::current());

/// "link.h2d_gb_s=110". Throws invalid_value.
Setting parse_setting(std::string_view text, SourceLocation where = SourceLocation::current());

/// Checks a condition such as "overlap(h2d, kernel) >= 0.8" or "makespan <= 7 ms": empty if it holds, else the actual value. The left side is makespan, host,
/// busy(ENGINE) or overlap(ENGINE, ENGINE); times are in ns, us, ms or s. Throws invalid_value for anything else.
std::string unmet(const Prediction& prediction, std::string_view expectation,
                  SourceLocation where = SourceLocation::current());

}  // namespace weir::sim
