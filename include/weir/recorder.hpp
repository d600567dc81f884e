// The observer that keeps a running program as a Recording, for any program also by WEIR_RECORD=FILE.
#pragma once

#include <cstddef>
#include <memory>

#include <weir/recording.hpp>
#include <weir/source_location.hpp>

namespace weir {

struct RecorderOptions {
  std::size_t limit = Recording::default_limit;  ///< bytes of memory; commands after it is reached are not recorded
  /// Measured durations become the commands' costs. On simulated devices the cost is the declared one (weir::sim::cost_of).
  bool times = true;
  bool host_times = false;  ///< what the host did between its calls, in real time, becomes work
};

/// Records what the process asks of Weir, from its construction to finish(): commands with exact uses, streams, events, memory,
/// waits and accesses of the host, hand-offs, and graphs as they are built or captured. Host memory that is no array becomes one
/// buffer for each range that was used. Commands inside captures are recorded as nodes of their graph (build_graph).
/// Thread rule: any threads may use Weir meanwhile; construction, finish() and destruction are one thread's.
class Recorder {
 public:
  explicit Recorder(const RecorderOptions& options = {}, SourceLocation where = SourceLocation::current());
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Stops, and gives what was recorded; to be called once. Commands that still run have no cost: synchronise first.
  Recording finish();
  /// How many commands were not kept because the limit was reached: the recording ends before the first of them.
  std::size_t dropped() const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

namespace detail {
/// Starts the tools that the environment asks for. Throws invalid_value naming the variable.
void start_tools();
}  // namespace detail

}  // namespace weir
