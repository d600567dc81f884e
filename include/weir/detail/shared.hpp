// Objects that the copies of a handle share. For the library: std::shared_ptr would do, but with <memory>, which nothing else of
// weir.hpp needs, a program takes a tenth longer to compile.
#pragma once

#include <cstdint>
#include <utility>

namespace weir::detail {

/// Destroyed with the last Shared that names it. Thread rule: any thread, for Shared objects of its own.
class Counted {
 public:
  Counted() = default;
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  virtual ~Counted();

 private:
  friend void retain(const Counted* object) noexcept;
  friend void release(const Counted* object) noexcept;
  mutable std::uint32_t owners_ = 1;
};
/// Null is nothing to count.
void retain(const Counted* object) noexcept;
void release(const Counted* object) noexcept;

template <class T>
class Shared {
 public:
  Shared() = default;
  /// Takes a new object.
  explicit Shared(T* object) noexcept : object_(object) {}
  Shared(const Shared& other) noexcept : object_(other.object_) { retain(object_); }
  Shared(Shared&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Shared() { release(object_); }

  T* get() const noexcept { return object_; }
  T* operator->() const noexcept { return object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace weir::detail
