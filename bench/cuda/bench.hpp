// The benchmarks of the CUDA backend, by name. Each has raw CUDA beside it, in the same program and by turns.
#pragma once

#include <optional>

#include <weir/device.hpp>

#include "support/measure.hpp"
#include "support/report.hpp"

namespace bench {

struct Context {
  Options options;
  weir::Device device;
  std::optional<weir::Device> peer;  ///< a second GPU
  Report& report;
};

void launch_cost(Context& context);    // launch
void launch_wait(Context& context);    // launch_wait
void hop(Context& context);            // hop
void allocate(Context& context);       // allocate
void streams(Context& context);        // streams
void host_function(Context& context);  // host_function
void pinned_copies(Context& context);  // copies
void peer_copy(Context& context);      // peer
void chunked(Context& context);        // M1
void graphs(Context& context);         // graph

}  // namespace bench
