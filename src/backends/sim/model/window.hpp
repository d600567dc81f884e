// A list that is read by number, and whose beginning may be forgotten.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weir::sim::model {

template <class T>
class Window {
 public:
  T& operator[](std::uint32_t number) { return items_[number - first_]; }
  const T& operator[](std::uint32_t number) const { return items_[number - first_]; }
  std::uint32_t first() const { return first_; }
  /// The number behind the last one.
  std::uint32_t end() const { return first_ + static_cast<std::uint32_t>(items_.size()); }
  void reserve(std::size_t count) { items_.reserve(count); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  const T& back() const { return items_.back(); }
  void pop_back() { items_.pop_back(); }
  /// Those before `number`, which keep theirs: the others' stay as they are.
  void forget_before(std::uint32_t number) {
    items_.erase(items_.begin(), items_.begin() + (number - first_));
    first_ = number;
  }
  /// A copy of those from `number` on.
  Window from(std::uint32_t number) const {
    Window some;
    some.items_.assign(items_.begin() + (number - first_), items_.end());
    some.first_ = number;
    return some;
  }
  const std::vector<T>& items() const { return items_; }
  std::vector<T> take() { return std::move(items_); }

 private:
  std::vector<T> items_;
  std::uint32_t first_ = 0;
};

}  // namespace weir::sim::model
