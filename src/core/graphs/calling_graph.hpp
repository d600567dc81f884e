// A graph with calls of ranks whose other ranks are other processes: a launch makes them again, and launches graphs of what is
// between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <weir/graph.hpp>

#include "core/collectives/captured_call.hpp"
#include "core/runtime.hpp"
#include "graph_form.hpp"
#include "thread_safety.hpp"

namespace weir::detail {

/// Thread rule: any thread. Launches come one behind the other, whole.
class CallingGraph final : public GraphExecutable {
 public:
  static bool is_needed(const GraphForm& form);
  /// `driver_graph` is the driver's part of the capture, or null. Throws weir::Error.
  CallingGraph(const GraphForm& form, DeviceState& device, void* driver_graph, SourceLocation where);

  /// Throws, before anything is launched, what the calls would throw. Not on a stream that captures.
  void launch(StreamRef stream, SourceLocation where);
  void update(const GraphForm& form, std::size_t node) override;
  void close() noexcept override { delete this; }
  bool does_more() override;

 private:
  struct Call {
    std::shared_ptr<const Payload> payload;  ///< has what `said` points to
    const CapturedRank* said;
    bool enabled;
  };
  /// Calls that are one unit, and what a launch does meanwhile.
  struct Step {
    Graph before;            ///< what the calls come behind; none: nothing
    std::vector<Call> unit;  ///< empty: only in the last one
    Graph beside;            ///< what comes behind no call that is still to be made
  };
  /// Where a node is.
  struct Place {
    enum class Of : std::uint8_t { before, unit, beside } of = Of::before;
    std::size_t step = 0;
    std::uint32_t index = 0;  ///< in the graph, or among the calls
  };
  class Planner;

  /// A node as it is in the graph that it is part of.
  FormNode part_of(const GraphForm& form, std::size_t node) const;
  static void make_calls(const Step& step, StreamRef stream, SourceLocation where);

  std::vector<Place> places_;
  Mutex mutex_;
  std::vector<Step> steps_ WEIR_GUARDED_BY(mutex_);
};

}  // namespace weir::detail
