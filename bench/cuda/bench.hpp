// The benchmarks of the CUDA backend, by name. Each has raw CUDA beside it, in the same program and by turns.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

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

/// Ahead of what others need for the same. They were measured where raw CUDA took `raw_there`: a machine on which raw CUDA
/// takes longer than that would slow them down, too.
inline Bound ahead_of(double others, double raw_there, const Pair& here, std::string unit) {
  return at_most(others * std::max(1.0, here.raw.median / raw_there), std::move(unit));
}

void launch_cost(Context& context);          // launch
void launch_wait(Context& context);          // launch_wait
void launches_by_threads(Context& context);  // threads
void hop(Context& context);                  // hop
void allocate(Context& context);             // allocate
void streams(Context& context);              // streams
void many_streams(Context& context);         // many_streams
void host_function(Context& context);        // host_function
void guarded(Context& context);              // guarded
void pinned_copies(Context& context);        // copies
void peer_copy(Context& context);            // peer
void pageable_copies(Context& context);      // pageable
void chunked(Context& context);              // M1
void pageable_vectors(Context& context);     // M1_pageable
void graphs(Context& context);               // graph
void algorithms(Context& context);           // algorithms.*
void observed(Context& context);             // observe.cuda.*, trace.cuda.*
void collectives(Context& context);          // collectives

}  // namespace bench
