// What a timeline says of the process that it is of.
#pragma once

#include <string>

namespace weir::trace {

/// The command line, at most 4 KiB of it.
std::string command_line();
/// ISO 8601, UTC.
std::string date_now();

}  // namespace weir::trace
