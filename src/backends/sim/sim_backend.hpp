// Simulated devices: they run every command for real on a device that stands behind them, and are like the GPU of a profile.
#pragma once

#include <cstddef>

namespace weir {
class Backend;
namespace sim {
/// Makes the device behind one: of its own, with so many bytes of memory; what it makes says that it is the front's.
using DeviceBehind = Backend& (*)(Backend& front, int index, std::size_t memory);
/// The same backend each time; only the first call says what is behind its devices.
Backend& backend(DeviceBehind behind);
}  // namespace sim
}  // namespace weir
