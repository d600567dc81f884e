// Timelines in words: durations, places, and sentences.
#pragma once

#include <cstdint>
#include <string>

#include <weir/trace.hpp>

namespace weir::trace {

/// "1.25 ms": three digits and a unit.
std::string duration_text(std::int64_t ns);
/// "a/b.cpp:12"; empty for none.
std::string place_text(const Timeline& timeline, Text file, std::uint32_t line);
/// "Saxpy (stream s)".
std::string command_text(const Timeline& timeline, std::uint32_t place);
/// Whether the device is the host's own, or one of CUDA.
bool is_cpu(const Timeline& timeline, std::uint32_t device);
bool is_gpu(const Timeline& timeline, std::uint32_t device);
/// A copy of a device that has engines for them, which do one after the other. (Kernels run beside each other while there is room.)
bool is_on_copy_engine(const Timeline& timeline, const Command& command);
/// Held::why and Held::change.
void add_words(Held& held, const Timeline& timeline);

}  // namespace weir::trace
