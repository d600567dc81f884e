// A window on an array's memory, as kernels see it: a pointer, sizes and strides. Digestible by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weir/detail/checked.hpp>
#include <weir/shape.hpp>

namespace weir {

/// R dimensions of T, strided. Not owning: the array must outlive every command that uses the view.
/// Trivially copyable; passed to kernels by value. `View<const T>` reads only; `View<T>` converts to it.
/// Strides are in elements. Elements: `v[i]` in one dimension, `v(i, j, ...)` in any, `v[index]` with the kernel's Index. In
/// checked builds (WEIR_CHECKED) each index and slice() throws out_of_bounds on the host and in kernels on CPUs.
template <class T, std::size_t R = 1>
class View {
  static_assert(R >= 1 && R <= max_rank, "weir::View has 1 to 4 dimensions");

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;
  static constexpr std::size_t rank() { return R; }

  View() = default;
  /// A contiguous, row-major view of `data`.
  WEIR_KERNEL constexpr View(T* data, const std::size_t (&sizes)[R]) : data_(data) {
    std::ptrdiff_t stride = 1;
    for (std::size_t d = R; d-- > 0;) {
      size_[d] = sizes[d];
      stride_[d] = stride;
      stride *= static_cast<std::ptrdiff_t>(sizes[d]);
    }
  }
  WEIR_KERNEL constexpr View(T* data, std::size_t size) requires(R == 1) : data_(data), size_{size}, stride_{1} {}
  WEIR_KERNEL constexpr View(T* data, const std::size_t (&sizes)[R], const std::ptrdiff_t (&strides)[R]) : data_(data) {
    for (std::size_t d = 0; d < R; ++d) {
      size_[d] = sizes[d];
      stride_[d] = strides[d];
    }
  }
  template <class U>
    requires(std::is_same_v<const U, T> && !std::is_same_v<U, T>)
  WEIR_KERNEL constexpr View(const View<U, R>& other) : data_(other.data()) {
    for (std::size_t d = 0; d < R; ++d) {
      size_[d] = other.size(d);
      stride_[d] = other.stride(d);
    }
    set_argument(other.argument());
  }

  WEIR_KERNEL constexpr T* data() const { return data_; }
  WEIR_KERNEL constexpr std::size_t size(std::size_t dimension) const { return size_[dimension]; }
  WEIR_KERNEL constexpr std::ptrdiff_t stride(std::size_t dimension) const { return stride_[dimension]; }
  /// The number of elements in all dimensions.
  WEIR_KERNEL constexpr std::size_t size() const {
    std::size_t count = 1;
    for (std::size_t d = 0; d < R; ++d) count *= size_[d];
    return count;
  }
  WEIR_KERNEL constexpr bool empty() const { return size() == 0; }

  WEIR_KERNEL constexpr T& operator[](std::size_t i) const requires(R == 1) {
    check(0, i);
    return data_[static_cast<std::ptrdiff_t>(i) * stride_[0]];
  }
  template <class I>
    requires(R == 1 && std::is_integral_v<I>)
  WEIR_KERNEL constexpr T& operator[](I i) const {
    check(0, static_cast<std::size_t>(i));
    return data_[static_cast<std::ptrdiff_t>(i) * stride_[0]];
  }
  template <class I>
    requires(R > 1 && std::is_integral_v<I>)
  WEIR_KERNEL constexpr T& operator[](I) const {
    static_assert(!std::is_same_v<I, I>, "an element of a weir::View of several dimensions: view(row, column)");
  }
  WEIR_KERNEL constexpr T& operator[](const Index<R>& index) const { return data_[offset(index)]; }
  template <class... I>
    requires(sizeof...(I) == R)
  WEIR_KERNEL constexpr T& operator()(I... i) const {
    return data_[offset(Index<R>{{static_cast<std::size_t>(i)...}})];
  }

  /// Rows lo..hi (hi excluded) of the first dimension.
  WEIR_KERNEL constexpr View slice(std::size_t lo, std::size_t hi) const {
#if WEIR_CHECKS_INDICES && !defined(__CUDA_ARCH__)
    if (lo > hi || hi > size_[0]) [[unlikely]]
      detail::refuse_part(argument(), lo, hi, size_[0]);
#endif
    View part = *this;
    part.data_ += static_cast<std::ptrdiff_t>(lo) * stride_[0];
    part.size_[0] = hi - lo;
    return part;
  }

  /// Whether the last dimension is dense: the loop over it can be vectorised.
  WEIR_KERNEL constexpr bool unit_stride() const { return stride_[R - 1] == 1; }
  /// States what unit_stride() found, in a form that the optimiser can use on a local copy.
  WEIR_KERNEL constexpr void assume_unit_stride() { stride_[R - 1] = 1; }

#if WEIR_CHECKS_INDICES
  /// For the library: the place among a kernel's arguments, from 1 on, as checked builds name it; else nothing.
  WEIR_KERNEL constexpr std::uint32_t argument() const { return argument_; }
  WEIR_KERNEL constexpr void set_argument(std::uint32_t number) { argument_ = number; }
#else
  WEIR_KERNEL constexpr std::uint32_t argument() const { return 0; }
  WEIR_KERNEL constexpr void set_argument(std::uint32_t) {}
#endif

 private:
  WEIR_KERNEL constexpr void check([[maybe_unused]] std::size_t dimension, [[maybe_unused]] std::size_t index) const {
#if WEIR_CHECKS_INDICES && !defined(__CUDA_ARCH__)
    if (index >= size_[dimension]) [[unlikely]]
      detail::refuse_element(argument_, dimension, index, size_[dimension]);
#endif
  }
  WEIR_KERNEL constexpr std::ptrdiff_t offset(const Index<R>& index) const {
    std::ptrdiff_t at = 0;
    for (std::size_t d = 0; d < R; ++d) {
      check(d, index[d]);
      at += static_cast<std::ptrdiff_t>(index[d]) * stride_[d];
    }
    return at;
  }

  T* data_ = nullptr;
  std::size_t size_[R] = {};
  std::ptrdiff_t stride_[R] = {};
#if WEIR_CHECKS_INDICES
  std::uint32_t argument_ = 0;
#endif
};

}  // namespace weir
