// Which place of an execution an object is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "graph.hpp"

namespace model {

/// From objects to places.
class Places {
 public:
  void clear() {
    if (++round_ == 0) slots_.assign(slots_.size(), {}), round_ = 1;
  }
  void put(const void* object, EventId place) {
    Slot& slot = find(object);
    slot = {object, round_, place};
  }
  EventId of(const void* object) {
    const Slot& slot = find(object);
    return slot.round == round_ ? slot.place : none;
  }

 private:
  struct Slot {
    const void* object = nullptr;
    std::uint32_t round = 0;
    EventId place = none;
  };
  /// The object's slot, or the free one where it belongs.
  Slot& find(const void* object) {
    for (std::size_t at = (reinterpret_cast<std::uintptr_t>(object) * 0x9e3779b97f4a7c15u) >> 53;; ++at) {
      Slot& slot = slots_[at % slots_.size()];
      if (slot.round != round_ || slot.object == object) return slot;
    }
  }
  std::vector<Slot> slots_ = std::vector<Slot>(2048);  // more than most_events
  std::uint32_t round_ = 0;
};

}  // namespace model
