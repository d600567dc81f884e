// What a timeline says of the process that it is of.
#pragma once

#include <cstdint>
#include <string>

namespace weir::trace {

/// Of the steady clock, in nanoseconds.
std::int64_t now();
/// The command line, at most 4 KiB of it.
std::string command_line();
/// A text that this machine has until it starts again; empty: not known.
std::string machine();
/// ISO 8601, UTC.
std::string date_now();

}  // namespace weir::trace
