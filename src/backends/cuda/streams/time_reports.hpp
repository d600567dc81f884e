// When commands ran, as observers are told: the user's code, on a thread that nothing else waits for.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend.hpp"

namespace weir::cuda {

struct RanAt {
  CommandId id;
  StreamId stream;
  std::optional<std::uint32_t> node;  ///< of the graph that it launched
  Span span;
};

/// Thread rule: any thread. Throws where there is no memory, or no thread.
void report(std::vector<RanAt> all);
/// Until all that was posted so far has been told; but no longer than `longest` from the last that was, for a thread that may have ended
/// with the process.
void wait_for_reports(std::chrono::nanoseconds longest);

}  // namespace weir::cuda
