// A serial machine without the library: streams as plain queues, and chance picks what happens next. It tests the testers.
#pragma once

#include <cstdint>
#include <optional>

#include "interpret.hpp"
#include "program.hpp"

namespace weir::stress {

/// Runs a program in one of the orders that its waits allow; `schedule` picks which. The command `last`, if given, runs
/// only when nothing else can.
Outcome mock_run(const Program& program, std::uint64_t schedule, std::optional<std::size_t> last = std::nullopt);

}  // namespace weir::stress
