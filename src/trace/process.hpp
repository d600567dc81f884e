// What a timeline says of the process that it is of.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <weir/trace.hpp>

namespace weir::trace {

/// Of the steady clock, in nanoseconds.
std::int64_t now();
/// The command line, at most 4 KiB of it.
std::string command_line();
/// The note of a file that is written while the recording goes on: only that of a program that was killed keeps it.
inline constexpr std::string_view written_meanwhile =
    "this was written while the recording went on: the program has not ended yet, or was killed, or did not end by "
    "exit()";
void add_note(Timeline& timeline, std::string_view note);
/// A text that this machine has until it starts again; empty: not known.
std::string machine();
/// ISO 8601, UTC.
std::string date_now();

}  // namespace weir::trace
