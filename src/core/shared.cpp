// How owners of shared objects are counted.
#include <weir/detail/shared.hpp>

#include <atomic>

namespace weir::detail {

Counted::~Counted() = default;

void retain(const Counted* object) noexcept {
  if (object != nullptr) std::atomic_ref(object->owners_).fetch_add(1, std::memory_order_relaxed);
}

void release(const Counted* object) noexcept {
  // What other owners did with the object happens before its end.
  if (object != nullptr && std::atomic_ref(object->owners_).fetch_sub(1, std::memory_order_acq_rel) == 1) delete object;
}

}  // namespace weir::detail
