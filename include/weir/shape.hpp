// Sizes and indices of 1 to 4 dimensions. Digestible by nvcc: nothing but fixed-size arrays.
#pragma once

#include <weir/detail/language.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#if defined(__CUDACC__)
#define WEIR_KERNEL __host__ __device__
#else
/// Marks a kernel's call operator and everything it calls: the same source compiles for CPU and GPU.
#define WEIR_KERNEL
#endif

namespace weir {

inline constexpr std::size_t max_rank = 4;

namespace detail {
/// Negative sizes become a value that no memory can have, so that the call that takes the shape refuses them by name.
template <std::integral I>
constexpr std::size_t to_size(I value) {
  return static_cast<std::size_t>(value);
}
}  // namespace detail

/// The sizes of an array or of a launch: 1 to 4 dimensions, row-major, the last one contiguous. `n` or `{rows, cols, ...}`.
class Shape {
 public:
  constexpr Shape() : size_{0, 1, 1, 1} {}
  template <std::integral A>
  constexpr Shape(A a) : size_{detail::to_size(a), 1, 1, 1} {}
  template <std::integral A, std::integral B>
  constexpr Shape(A a, B b) : rank_(2), size_{detail::to_size(a), detail::to_size(b), 1, 1} {}
  template <std::integral A, std::integral B, std::integral C>
  constexpr Shape(A a, B b, C c) : rank_(3), size_{detail::to_size(a), detail::to_size(b), detail::to_size(c), 1} {}
  template <std::integral A, std::integral B, std::integral C, std::integral D>
  constexpr Shape(A a, B b, C c, D d)
      : rank_(4), size_{detail::to_size(a), detail::to_size(b), detail::to_size(c), detail::to_size(d)} {}

  template <class... A>
    requires((std::is_arithmetic_v<A> && ...) && (std::is_floating_point_v<A> || ...))
  constexpr Shape(A...) : Shape() {
    static_assert(sizeof...(A) == 0, "sizes are whole numbers: convert them yourself, as with std::size_t(n)");
  }

  /// From the first `rank` entries of `sizes`; rank is 1 to 4.
  static constexpr Shape of(std::size_t rank, const std::size_t* sizes) {
    Shape shape;
    shape.rank_ = rank;
    for (std::size_t d = 0; d < max_rank; ++d) shape.size_[d] = d < rank ? sizes[d] : 1;
    return shape;
  }

  constexpr std::size_t rank() const { return rank_; }
  constexpr std::size_t operator[](std::size_t dimension) const { return size_[dimension]; }
  /// The number of elements. Wraps for shapes that cannot exist; every call that takes a Shape has refused those by then.
  constexpr std::size_t count() const { return size_[0] * size_[1] * size_[2] * size_[3]; }

  friend constexpr bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && a.size_[0] == b.size_[0] && a.size_[1] == b.size_[1] && a.size_[2] == b.size_[2] &&
           a.size_[3] == b.size_[3];
  }

 private:
  std::size_t rank_ = 1;
  std::size_t size_[max_rank];
};

/// The place of one element in R dimensions: what a kernel over `{rows, cols}` gets. Structured bindings work: `auto [row, col] = index;`
template <std::size_t R>
struct Index {
  static_assert(R >= 1 && R <= max_rank, "weir::Index has 1 to 4 dimensions");
  std::size_t value[R];

  WEIR_KERNEL constexpr std::size_t operator[](std::size_t dimension) const { return value[dimension]; }
  template <std::size_t D>
  WEIR_KERNEL constexpr std::size_t get() const {
    return value[D];
  }
  friend constexpr bool operator==(const Index&, const Index&) = default;
};

}  // namespace weir

namespace std {
template <size_t R>
struct tuple_size<weir::Index<R>> : integral_constant<size_t, R> {};
template <size_t D, size_t R>
struct tuple_element<D, weir::Index<R>> {
  using type = size_t;
};
}  // namespace std
