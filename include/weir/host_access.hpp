// What the host does with memory, for hazard checkers: guards around reads and writes, ends of host memory, and orders
// between host threads that the library cannot see. Nothing here waits or synchronises; unobserved, a call is one load.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include <weir/array.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/detail/range_concepts.hpp>
#include <weir/source_location.hpp>

namespace weir {

namespace detail {

extern std::atomic<std::uint32_t> hooks;
/// The bits of `hooks` for which an access is told: Watch::host, Watch::memory and policies.
inline constexpr std::uint32_t host_access_hooks = 4u | 2u | 1u << 30;
inline bool host_access_is_watched() { return (hooks.load(std::memory_order_relaxed) & host_access_hooks) != 0; }

/// Returns the guard's number; 0 if no observer wants to be told.
std::uint64_t begin_host_access(const Region& region, SourceLocation where);
void end_host_access(std::uint64_t guard, const Region& region, SourceLocation where) noexcept;
void tell_host_gone(const void* data, std::size_t bytes, SourceLocation where);
std::uint64_t new_hand_off() noexcept;
void tell_hand_off(std::uint64_t hand_off, bool gives, SourceLocation where) noexcept;

template <class R>
concept host_memory_range = !array_object<R> && std::ranges::contiguous_range<R> && std::ranges::sized_range<R>;

}  // namespace detail

/// The host reads or writes memory as long as this lives. Elements are reached through it. Move-only.
template <class T>
class HostGuard {
 public:
  using element_type = T;

  HostGuard(HostGuard&& other) noexcept
      : view_(other.view_),
        storage_(std::exchange(other.storage_, nullptr)),
        guard_(std::exchange(other.guard_, 0)),
        access_(other.access_),
        where_(other.where_) {}
  HostGuard& operator=(HostGuard&& other) noexcept {
    std::swap(view_, other.view_);
    std::swap(storage_, other.storage_);
    std::swap(guard_, other.guard_);
    std::swap(access_, other.access_);
    std::swap(where_, other.where_);
    return *this;
  }
  ~HostGuard() {
    close();
    detail::release(storage_);
  }

  T* data() const { return view_.data(); }
  std::size_t size() const { return view_.size(); }
  /// Whether it has no elements.
  bool empty() const { return size() == 0; }
  /// The i-th element, in rows. Throws wrong_shape for more than one dimension that are not contiguous: there, view()(i, j).
  T& operator[](std::size_t i) const {
#if WEIR_CHECKS_INDICES
    if (i >= size()) [[unlikely]]
      detail::refuse_host_element(0, i, size(), where_);
#endif
    if (view_.rank() == 1) return view_.data()[static_cast<std::ptrdiff_t>(i) * view_.stride(0)];
    if (!view_.contiguous()) detail::refuse_one_index(view_.rank(), where_);
    return view_.data()[i];
  }
  /// All elements. Throws wrong_shape unless they are contiguous.
  T* begin() const {
    if (!view_.contiguous()) detail::refuse_one_index(view_.rank(), where_);
    return data();
  }
  T* end() const { return begin() + size(); }
  AnyView<T> view() const { return view_.from_line(where_); }

  /// Ends the access now.
  void close() noexcept {
    if (guard_ != 0) detail::end_host_access(std::exchange(guard_, 0), region(), where_);
  }

  /// For the library.
  HostGuard(const AnyView<T>& view, detail::Storage* storage, Access access, SourceLocation where)
      : view_(view), access_(access), where_(where) {
    if (!detail::host_access_is_watched()) [[likely]] {
      keep(storage);
      return;
    }
    storage_ = storage;  // for region(): not counted yet
    try {
      guard_ = detail::begin_host_access(region(), where);
    } catch (...) {
      storage_ = nullptr;
      throw;
    }
    keep(storage);
  }

 private:
  void keep(detail::Storage* storage) noexcept {
    detail::retain(storage);
    storage_ = storage;
  }
  Region region() const { return region_of(Argument<T>{view_, storage_, access_, {}}); }

  AnyView<T> view_;
  detail::Storage* storage_ = nullptr;
  std::uint64_t guard_ = 0;
  Access access_;
  SourceLocation where_;
};

namespace detail {
template <class T, class U>
HostGuard<T> guard_array(const ArrayBase<U>& array, Access access, SourceLocation where) {
  return HostGuard<T>(array.host_view(where), array.storage(), access, where);
}
template <class T, class R>
HostGuard<T> guard_range(R&& range, Access access, SourceLocation where) {
  return HostGuard<T>(AnyView<T>(std::ranges::data(range), Shape(std::ranges::size(range))), nullptr, access, where);
}
template <class R>
using range_element = std::remove_reference_t<std::ranges::range_reference_t<R>>;
}  // namespace detail

/// The host reads host or pinned memory: an array, a slice or a contiguous range. Commands that write it race with the access
/// while the guard lives, unless they come before or after it. Throws wrong_memory for device memory.
template <class T>
[[nodiscard]] HostGuard<const T> host_read(const ArrayBase<T>& array,
                                           SourceLocation where = SourceLocation::current()) {
  return detail::guard_array<const T>(array, Access::read, where);
}
template <detail::host_memory_range R>
[[nodiscard]] auto host_read(const R& range, SourceLocation where = SourceLocation::current()) {
  return detail::guard_range<const std::remove_const_t<detail::range_element<const R&>>>(range, Access::read, where);
}
/// The host writes it.
template <class T>
[[nodiscard]] HostGuard<T> host_write(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::host_write needs an array that can be written");
  return detail::guard_array<T>(array, Access::write, where);
}
template <detail::host_memory_range R>
[[nodiscard]] auto host_write(R&& range, SourceLocation where = SourceLocation::current()) {
  return detail::guard_range<detail::range_element<R&>>(range, Access::write, where);
}
/// The host reads and writes it.
template <class T>
[[nodiscard]] HostGuard<T> host_update(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::host_update needs an array that can be written");
  return detail::guard_array<T>(array, Access::read_write, where);
}
template <detail::host_memory_range R>
[[nodiscard]] auto host_update(R&& range, SourceLocation where = SourceLocation::current()) {
  return detail::guard_range<detail::range_element<R&>>(range, Access::read_write, where);
}

/// To be called before host memory that is no array is freed or reused: checkers then expect all earlier uses of it to be over.
inline void host_gone(const void* data, std::size_t bytes, SourceLocation where = SourceLocation::current()) {
  if (detail::host_access_is_watched()) [[unlikely]]
    detail::tell_host_gone(data, bytes, where);
}

/// Tells tools of an order between host threads that the library cannot see, as by a mutex or a queue of the program's own:
/// everything after a take() comes after everything before each earlier give() of this object. It synchronises nothing itself.
/// give() may be called in host functions, too. Thread rule: any thread, several at once.
class HandOff {
 public:
  HandOff() = default;
  HandOff(const HandOff&) = delete;
  HandOff& operator=(const HandOff&) = delete;

  /// Everything that this thread has done so far comes before every later take().
  void give(SourceLocation where = SourceLocation::current()) const noexcept {
    if (detail::host_access_is_watched()) [[unlikely]]
      detail::tell_hand_off(id_, true, where);
  }
  /// Everything that this thread does from here on comes after every earlier give().
  void take(SourceLocation where = SourceLocation::current()) const noexcept {
    if (detail::host_access_is_watched()) [[unlikely]]
      detail::tell_hand_off(id_, false, where);
  }
  /// As observers are told.
  std::uint64_t id() const { return id_; }

 private:
  std::uint64_t id_ = detail::new_hand_off();
};

}  // namespace weir
