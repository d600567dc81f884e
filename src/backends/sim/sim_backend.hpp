// Simulated devices: they run every command for real on a device that stands behind them, and are like the GPU of a profile.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace weir {
class Backend;
namespace detail {
class CollectiveTransport;
}
namespace sim {
/// What stands behind simulated devices.
struct Behind {
  /// Makes the device behind one: of its own, with so many bytes of memory; what it makes says that it is the front's.
  Backend& (*device)(Backend& front, int index, std::size_t memory);
  /// Makes what runs collectives among queues of such devices.
  std::unique_ptr<detail::CollectiveTransport> (*transport)(const std::vector<Backend*>& devices);
};
/// The same backend each time; only the first call says what is behind its devices.
Backend& backend(const Behind& behind);
}  // namespace sim
}  // namespace weir
