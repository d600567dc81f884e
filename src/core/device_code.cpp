// The list of all device code in the process, filled by static initialisation of the files that nvcc compiled.
#include <weir/device_code.hpp>

#include "backend.hpp"

namespace weir::detail {

namespace {
constinit std::atomic<DeviceCode*> first{nullptr};
}

DeviceCode::DeviceCode(Kind k, int (*l)(void**)) : kind(k), load(l) {
  next = first.load(std::memory_order_relaxed);
  while (!first.compare_exchange_weak(next, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

DeviceCode* first_device_code() noexcept { return first.load(std::memory_order_acquire); }

}  // namespace weir::detail
