// Runs of scenarios: the calls of a recorded program, made with the library. In the library weir::tools.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <weir/error.hpp>
#include <weir/recording.hpp>
#include <weir/source_location.hpp>

namespace weir {

/// The name in the list of weir::Errc: "wrong_device".
std::string_view name_of(Errc code) noexcept;

struct RunOptions {
  std::string device =
      "cpu";  ///< where the first device of the scenario is; the others are the next ones of its backend
  std::string file = "scenario";  ///< what lines of commands that have no file of their own are of
  bool times = false;             ///< measure each call, and when what it enqueued ran
  double longest_ns = 1e10;       ///< a command that would last longer refuses the run
  bool costs = true;              ///< false: nothing lasts, whatever its cost; for who looks at the order alone
};

/// A command that the library refused.
struct Misuse {
  std::size_t command;
  Errc errc;
  std::string what;
};

/// In nanoseconds since the first call. What a command enqueued: from its beginning to its end on the device.
struct CommandTimes {
  double call_begin = 0;
  double call_end = 0;
  std::optional<double> run_begin;
  std::optional<double> run_end;
};

struct RunResult {
  std::vector<Misuse> misuse;
  std::vector<std::string> failures;  ///< of work that the library had accepted
  double ns = 0;                      ///< from the first call to the end of all work
  std::vector<CommandTimes> times;    ///< one for each command, if asked for
};

/// Who is told of each call. Called by the host thread that makes the call, never two at a time.
class RunHooks {
 public:
  virtual ~RunHooks() = default;
  /// `where` is the location that the call will have.
  virtual void before(std::size_t, SourceLocation) {}
  /// With the misuse, if the library refused it.
  virtual void after(std::size_t, const Misuse*) {}
};

/// How many devices it needs, from the first one on.
std::size_t devices_of(const Recording& recording);

/// Makes the calls of a scenario, as docs/scenarios.md says, and waits for all that they began. Nothing of it is left
/// afterwards. Throws unknown_device where there are not enough devices, invalid_value for commands that last too long
/// and for more than 1,024 host threads, and what making the streams, events and buffers of the start throws. The recording
/// must outlive the call.
RunResult run_scenario(const Recording& recording, const RunOptions& options = {}, RunHooks* hooks = nullptr);

}  // namespace weir
