// Commands of a recording that have not ended, as far as it knows: it is told how long they took only later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <weir/op.hpp>

namespace weir::recorded {

/// By their ids: open addressing, half full at most. Thread rule: one at a time.
class Running {
 public:
  struct One {
    CommandId id = 0;
    std::uint32_t place = 0;
    bool lasts = false;  ///< so that how long becomes its cost; else it is a host function, which may still give
  };

  void add(const One& one) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    put(one);
    ++count_;
  }
  /// Null if it is not there.
  const One* find(CommandId id) const {
    const std::size_t at = slot_of(id);
    return at < slots_.size() ? &slots_[at] : nullptr;
  }
  /// It is not there any more. Id 0 if it was not.
  One take(CommandId id) {
    std::size_t gap = slot_of(id);
    if (gap >= slots_.size()) return {};
    const One taken = slots_[gap];
    // Those behind that were moved on by it go back.
    for (std::size_t i = next(gap); slots_[i].id != 0; i = next(i)) {
      const std::size_t moved = (i - home(slots_[i].id)) & (slots_.size() - 1);
      if (moved < ((i - gap) & (slots_.size() - 1))) continue;
      slots_[gap] = slots_[i];
      gap = i;
    }
    slots_[gap] = {};
    --count_;
    return taken;
  }
  template <class F>
  void for_each(F&& f) const {
    for (const One& one : slots_) {
      if (one.id != 0) f(one);
    }
  }
  std::size_t bytes() const { return slots_.size() * sizeof(One); }

 private:
  std::size_t home(CommandId id) const { return (id * 0x9e3779b97f4a7c15 >> 32) & (slots_.size() - 1); }
  std::size_t next(std::size_t slot) const { return (slot + 1) & (slots_.size() - 1); }
  /// slots_.size() if it is not there.
  std::size_t slot_of(CommandId id) const {
    if (slots_.empty()) return 0;
    for (std::size_t i = home(id); slots_[i].id != 0; i = next(i)) {
      if (slots_[i].id == id) return i;
    }
    return slots_.size();
  }
  void put(const One& one) {
    std::size_t i = home(one.id);
    while (slots_[i].id != 0) i = next(i);
    slots_[i] = one;
  }
  void grow() {
    std::vector<One> old(slots_.empty() ? 64 : 2 * slots_.size());
    old.swap(slots_);
    for (const One& one : old) {
      if (one.id != 0) put(one);
    }
  }

  std::vector<One> slots_;
  std::size_t count_ = 0;
};

}  // namespace weir::recorded
