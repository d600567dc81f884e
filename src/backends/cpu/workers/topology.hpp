// What the machine has: cores that this process may use, memory, caches, the processor's name.
#pragma once

#include <cstddef>
#include <string>

namespace weir::cpu {

int usable_cores();
std::size_t physical_memory();
std::size_t cache_bytes();
std::string processor_name();
/// WEIR_CPU_DEVICES, 1 to 64; 1 where it is not set. Throws invalid_value for anything else.
int wanted_devices();
/// WEIR_CPU_WORKERS, 1 to 128, for all devices together; the usable cores where it is not set. Throws likewise.
int wanted_workers();

}  // namespace weir::cpu
