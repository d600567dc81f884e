// Arrays of the ranks of a call, which is of one rank where the others are other processes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace weir::detail {

/// A fixed number of elements; a single one is in place.
template <class T>
class OneOrMore {
 public:
  explicit OneOrMore(std::size_t count) : count_(count), more_(count == 1 ? nullptr : new T[count]()) {}

  std::size_t size() const { return count_; }
  T* begin() { return more_ ? more_.get() : &one_; }
  const T* begin() const { return more_ ? more_.get() : &one_; }
  T* end() { return begin() + count_; }
  const T* end() const { return begin() + count_; }
  T& operator[](std::size_t index) { return begin()[index]; }
  const T& operator[](std::size_t index) const { return begin()[index]; }
  std::span<T> all() { return {begin(), count_}; }
  std::span<const T> all() const { return {begin(), count_}; }

 private:
  const std::size_t count_;
  const std::unique_ptr<T[]> more_;
  T one_{};
};

}  // namespace weir::detail
