// A stream-ordered histogram: how many elements fall into each of some bins of equal width.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/launch.hpp>

namespace weir {

namespace detail {

/// What bounds are of: of integers below 64 bits one that holds the end of a bin that has the greatest value.
template <class T>
using BinBound = std::conditional_t<std::is_integral_v<T> && sizeof(T) < sizeof(std::int64_t), std::int64_t, T>;

__extension__ typedef unsigned __int128 WideProduct;

WEIR_KERNEL inline std::uint64_t upper_half_of_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return static_cast<std::uint64_t>(static_cast<WideProduct>(a) * b >> 64);
#endif
}

/// The bin of a value, or `bins` if it is in none. Exact for integers.
template <class T>
struct BinOf {
  T lower;
  T upper;
  std::size_t bins;
  std::uint64_t bins_per_value = scaled_bins();

  /// upper - lower: of integers it is taken before it is rounded.
  WEIR_KERNEL constexpr double width() const {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<double>(values());
    } else {
      return static_cast<double>(upper) - static_cast<double>(lower);
    }
  }

  WEIR_KERNEL std::size_t operator()(const T& value) const {
    if constexpr (std::is_integral_v<T>) {
      const std::uint64_t from_lower = static_cast<std::uint64_t>(value) - static_cast<std::uint64_t>(lower);
      if (!(from_lower < values())) return bins;
      // from_lower * bins / values() in steps that do not overflow: by what was divided before, both factors below 2^32, or long
      // division by a bit a step.
      if (bins_per_value != 0) return static_cast<std::size_t>(upper_half_of_product(from_lower, bins_per_value));
      if (((from_lower | bins) >> 32) == 0) return static_cast<std::size_t>(from_lower * bins / values());
      return long_product_over(from_lower, bins, values());
    } else {
      if (!(lower <= value && value < upper)) return bins;
      const double at = (static_cast<double>(value) - static_cast<double>(lower)) / width() * static_cast<double>(bins);
      const auto bin = static_cast<std::size_t>(at);
      return bin < bins ? bin : bins - 1;
    }
  }

 private:
  /// How many integers there are.
  WEIR_KERNEL constexpr std::uint64_t values() const {
    return static_cast<std::uint64_t>(upper) - static_cast<std::uint64_t>(lower);
  }
  /// bins * 2^64 / values(), rounded up, where that is below 2^64 and times a value errs by less than 1 / values(): then the upper half
  /// of the product is the bin. Else 0.
  constexpr std::uint64_t scaled_bins() const {
    if constexpr (std::is_integral_v<T>) {
      if (bins < values() && values() <= std::uint64_t{1} << 32) {
        return static_cast<std::uint64_t>(((static_cast<WideProduct>(bins) << 64) + values() - 1) / values());
      }
    }
    return 0;
  }
  /// a * b / c for a < c: bit by bit of b, with a remainder below c.
  WEIR_KERNEL static std::size_t long_product_over(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
    std::uint64_t quotient = 0;
    std::uint64_t rest = 0;
    for (int bit = 63; bit >= 0; --bit) {
      quotient <<= 1;
      if (rest >= c - rest) {
        rest -= c - rest;
        ++quotient;
      } else {
        rest += rest;
      }
      if ((b >> bit & 1) != 0) {
        if (rest >= c - a) {
          rest -= c - a;
          ++quotient;
        } else {
          rest += a;
        }
      }
    }
    return static_cast<std::size_t>(quotient);
  }
};

/// Elements that one partial histogram counts: enough that adding up the parts costs less than counting.
constexpr std::size_t histogram_tile(std::size_t n, std::size_t bins) {
  constexpr std::size_t most_tiles = 64;
  std::size_t tile = 16'384;
  if (tile < 4 * bins) tile = 4 * bins;
  const std::size_t even = (n + most_tiles - 1) / most_tiles;
  return tile < even ? even : tile;
}

/// partial[tile][bin]
template <class T>
struct CountTile {
  BinOf<BinBound<T>> bin_of;
  std::size_t tile;

  template <class N>
  WEIR_KERNEL void operator()(std::size_t index, View<const T> x, View<N> partial) const {
    const BinOf<BinBound<T>> to_bin = bin_of;  // a copy that no count can be part of: it stays in registers
    const std::size_t bins = to_bin.bins;
    const auto [begin, end] = part_of(x.size(), index, tile);
    const View<N> own = partial.slice(index * bins, (index + 1) * bins);
    for (std::size_t b = 0; b < bins; ++b) own[b] = 0;
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t bin = to_bin(x[i]);
      if (bin < bins) ++own[bin];
    }
  }
};
struct AddTiles {
  template <class N>
  WEIR_KERNEL void operator()(std::size_t bin, View<const N> partial, View<N> counts) const {
    N sum = 0;
    for (std::size_t at = bin; at < partial.size(); at += counts.size()) sum = static_cast<N>(sum + partial[at]);
    counts[bin] = sum;
  }
};

void check_bins(bool in_order, bool finite, const char* operation, SourceLocation where);

}  // namespace detail

/// counts[b] = how many elements of x are in [lower + b * w, lower + (b + 1) * w), where w = (upper - lower) /
/// counts.size(); elements outside of [lower, upper), and NaNs, are not counted. Bounds have the elements' type, or
/// 64 bits for shorter integers, so that 0 to 256 counts all bytes. Edges are exact for integers, and rounded as double
/// for others. Asynchronous, in the order of `stream`; one-dimensional arrays or slices of numbers and of
/// integers that hold the counts. Throws wrong_shape for no bins, invalid_value unless lower < upper and their difference is a
/// finite double.
template <class X, class N, class Compiler = detail::ThisCompiler>
void histogram(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<N>& counts,
               std::type_identity_t<detail::BinBound<std::remove_const_t<X>>> lower,
               std::type_identity_t<detail::BinBound<std::remove_const_t<X>>> upper) {
  using T = std::remove_const_t<X>;
  constexpr const char* operation = "weir::histogram";
  static_assert(std::is_arithmetic_v<T>, "weir::histogram counts numbers");
  static_assert(std::integral<N> && !std::is_same_v<N, bool>, "weir::histogram counts in integers");
  const SourceLocation where = stream.where;
  detail::check_stream(stream, operation);
  const std::size_t n = detail::length_of(x, stream, operation);
  const std::size_t bins = detail::length_of(counts, stream, operation);
  detail::check_algorithm(operation, bins, 1, false, where);
  const detail::BinOf<detail::BinBound<T>> bin_of{lower, upper, bins};
  detail::check_bins(lower < upper, bin_of.width() <= std::numeric_limits<double>::max(), operation, where);
  detail::check_apart(operation, where, x, counts);
  if (n == 0) return fill(stream.stream, counts, N{0}, where);
  if (detail::OnDevice<Compiler>::histogram(stream.stream, x, counts, bin_of, operation, where)) return;
  const std::size_t tile = detail::histogram_tile(n, bins);
  const std::size_t tiles = (n + tile - 1) / tile;
  if (tiles == 1) {
    launch(stream, Extent{.size = 1, .name = "histogram"}, detail::CountTile<T>{bin_of, tile}, in(x, where),
           out(counts, where));
    return;
  }
  const auto partial = empty<N>(Place(stream.stream, where), tiles * bins);
  launch(stream, Extent{.size = tiles, .name = "histogram tiles"}, detail::CountTile<T>{bin_of, tile}, in(x, where),
         out(partial, where));
  launch(stream, Extent{.size = bins, .name = "histogram"}, detail::AddTiles{}, in(partial, where), out(counts, where));
}

/// Do not compile, and say what to write.
template <class X, class N>
void histogram(StreamArg, const ArrayBase<X>&, const ArrayBase<N>&) {
  static_assert(!std::is_same_v<X, X>,
                "weir::histogram needs the bounds of its bins: weir::histogram(stream, x, counts, lower, upper)");
}
template <class... A>
  requires detail::lack_arrays<2, A...>
void histogram(StreamArg, const A&...) { detail::refuse_no_arrays<2, A...>(); }

}  // namespace weir
