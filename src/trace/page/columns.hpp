// The timeline as a page holds it: numbers of as many bytes as they need, column after column, deflated, as base64.
//
// A number has seven bits a byte, the lowest first, the highest bit set in all but the last byte. A signed number n is 2n, or
// -2n - 1 below zero. A string is its size and its bytes. A place that may be none is one more than it is, and 0 for none. In order:
//
//   program, clock, date, note: strings; duration: signed; dropped
//   texts, devices, streams: how many there are, and each. A device is the place of its name; a stream is the place of its name, id,
//     device, priority (signed), flags (1: blocking, 2: legacy)
//   commands: how many there are, and columns, a number for each command:
//     id (signed, from the one before), name, file, line (signed, from the one before), stream, thread,
//     kind (lane + 16 * state + 64 if pageable), event, elements, bytes, call (signed, from the one before),
//     called (1 more than since the call; 0: not known), begin (signed, since the call), end (signed, since begin),
//     how many dependencies. Then of all dependencies their ties, and how far before the command theirs are
//   waits of the host: how many there are, and of each: what, stream, command, file, line, thread, begin (signed, from the one
//     before), time (signed)
//   ranges: how many there are, and of each: name, thread, begin (signed, from the one before), 1 more than the time (0: open)
//   critical path: how many commands it has, and each (signed, from the one before)
//   origin (signed), machine: a string (what is made by hand may end before that)
//   parts of collectives: how many there are, and of each: command (from the one before), collective, communicator, rank, ranks,
//     peer (signed)
//   nodes of graphs (may be missing, too): how many there are, and of each: command (from the one before), node, name, lane, file,
//     line, begin (signed, since the command's), time
//   parts of collectives again (may be missing, where none has more): of each the communicator's number in all processes, or 0, and
//     the collective's there
//   best rates (may be missing, too): how many there are, 0 or one for each device, and of each: copy_in, copy_out, source
//   arguments (may be missing, too): a number for each command, a text or none
//   what nodes come behind (may be missing, too): of each node how many nodes, and each one's number
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include <weir/trace.hpp>

namespace weir::trace {

/// In base64. trace_files/page.cpp reads it, and page.html says its version.
std::string to_columns(const Timeline& timeline, std::span<const std::uint32_t> critical_path);

}  // namespace weir::trace
