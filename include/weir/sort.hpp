// Stream-ordered sorting: sort, sort_by_key. Both are stable: elements that compare equal keep their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/launch.hpp>
#include <weir/operators.hpp>

namespace weir {

namespace detail {

/// Where only keys are sorted: moving a value is nothing.
struct NoValues {
  using element_type = NoValues;
};
template <class From, class To>
WEIR_KERNEL void move_value(const From& from, std::size_t i, const To& to, std::size_t j) {
  to[j] = from[i];
}
WEIR_KERNEL inline void move_value(const NoValues&, std::size_t, const NoValues&, std::size_t) {}
template <class V>
WEIR_KERNEL V value_at(const View<V>& values, std::size_t i) {
  return values[i];
}
WEIR_KERNEL inline NoValues value_at(const NoValues&, std::size_t) { return {}; }
template <class V>
WEIR_KERNEL void put_value(const View<V>& values, std::size_t i, const V& value) {
  values[i] = value;
}
WEIR_KERNEL inline void put_value(const NoValues&, std::size_t, const NoValues&) {}

/// Merges the sorted [a, a_end) and [b, b_end) of `from` into `count` places of `to` from `out` on; of equals, a's first.
template <class K, class From, class V, class W, class Compare>
WEIR_KERNEL void merge_runs(const From& from, const View<K>& to, const V& values, const W& values_to, std::size_t a,
                            std::size_t a_end, std::size_t b, std::size_t b_end, std::size_t out, std::size_t count,
                            const Compare& less) {
  for (; count != 0 && a != a_end && b != b_end; --count, ++out) {
    const bool second = less(from[b], from[a]);
    const std::size_t next = second ? b : a;
    to[out] = from[next];
    move_value(values, next, values_to, out);
    b += static_cast<std::size_t>(second);
    a += static_cast<std::size_t>(!second);
  }
  for (; count != 0 && a != a_end; --count, ++out, ++a) {
    to[out] = from[a];
    move_value(values, a, values_to, out);
  }
  for (; count != 0; --count, ++out, ++b) {
    to[out] = from[b];
    move_value(values, b, values_to, out);
  }
}

/// Sorts each chunk: short runs by insertion, then merged there and back, an even number of times.
template <class Compare>
struct SortChunks {
  Compare less;
  std::size_t run;    ///< elements sorted by insertion
  std::size_t chunk;  ///< run times a power of four

  template <class K, class V>
  WEIR_KERNEL void operator()(std::size_t index, View<K> keys, View<K> other, V values, V other_values) const {
    const std::size_t n = keys.size();
    const auto [begin, end] = part_of(n, index, chunk);
    for (std::size_t first = begin; first < end; first += run) {
      const std::size_t last = first + run < end ? first + run : end;
      for (std::size_t i = first + 1; i < last; ++i) {
        const K key = keys[i];
        const auto value = value_at(values, i);
        std::size_t at = i;
        for (; at != first && less(key, keys[at - 1]); --at) {
          keys[at] = keys[at - 1];
          move_value(values, at - 1, values, at);
        }
        keys[at] = key;
        put_value(values, at, value);
      }
    }
    for (std::size_t width = run; width < chunk && width < end - begin; width *= 4) {
      merge_all(keys, other, values, other_values, begin, end, width);
      merge_all(other, keys, other_values, values, begin, end, 2 * width);
    }
  }

 private:
  template <class K, class V>
  WEIR_KERNEL void merge_all(const View<K>& from, const View<K>& to, const V& values, const V& values_to,
                             std::size_t begin, std::size_t end, std::size_t width) const {
    for (std::size_t a = begin; a < end; a += 2 * width) {
      const std::size_t b = a + width < end ? a + width : end;
      const std::size_t b_end = b + width < end ? b + width : end;
      merge_runs(from, to, values, values_to, a, b, b, b_end, a, b_end - a, less);
    }
  }
};

/// One step of the merge sort: pairs of sorted runs of `width`. Each index makes one tile of the output: where it begins in
/// both runs, it finds by itself.
template <class Compare>
struct MergeTiles {
  Compare less;
  std::size_t width;

  template <class K, class V, class W>
  WEIR_KERNEL void operator()(std::size_t tile, View<const K> from, View<K> to, V values, W values_to) const {
    const std::size_t n = from.size();
    const auto [begin, end] = part_of(n, tile);
    const std::size_t a = begin - begin % (2 * width);
    const std::size_t b = a + width < n ? a + width : n;
    const std::size_t b_end = b + width < n ? b + width : n;
    const std::size_t before = begin - a;  // elements of both runs that earlier tiles have
    std::size_t low = before > b_end - b ? before - (b_end - b) : 0;
    std::size_t high = before < b - a ? before : b - a;
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      if (less(from[b + before - 1 - middle], from[a + middle])) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    merge_runs(from, to, values, values_to, a + low, b, b + before - low, b_end, begin, end - begin, less);
  }
};

inline constexpr std::size_t radix_digits = 256;
inline constexpr std::size_t most_radix_tiles = 256;
constexpr std::size_t radix_tile(std::size_t n) {
  const std::size_t even = (n + most_radix_tiles - 1) / most_radix_tiles;
  return even > 16'384 ? even : 16'384;
}

template <std::size_t bytes>
using BitsOf = std::conditional_t<
    bytes == 1, std::uint8_t,
    std::conditional_t<bytes == 2, std::uint16_t, std::conditional_t<bytes == 4, std::uint32_t, std::uint64_t>>>;

/// Unsigned numbers in the order of the keys. Both zeros of a floating-point type are one.
template <class K, bool descending>
WEIR_KERNEL BitsOf<sizeof(K)> ordered_bits(K key) {
  using Bits = BitsOf<sizeof(K)>;
  constexpr Bits top = static_cast<Bits>(Bits{1} << (8 * sizeof(K) - 1));
  Bits bits;
  if constexpr (std::is_floating_point_v<K>) key += K{0};
  __builtin_memcpy(&bits, &key, sizeof(K));
  if constexpr (std::is_floating_point_v<K>) {
    bits = static_cast<Bits>((bits & top) != 0 ? ~bits : bits | top);
  } else if constexpr (std::is_signed_v<K>) {
    bits = static_cast<Bits>(bits ^ top);
  }
  if constexpr (descending) bits = static_cast<Bits>(~bits);
  return bits;
}
template <class K, bool descending>
WEIR_KERNEL std::size_t radix_digit(K key, unsigned shift) {
  return static_cast<std::size_t>(ordered_bits<K, descending>(key) >> shift) & (radix_digits - 1);
}
/// The same order for merges: of Less and Greater numbers have none that includes NaNs.
template <bool descending>
struct LessBits {
  template <class K>
  WEIR_KERNEL bool operator()(const K& a, const K& b) const {
    return ordered_bits<K, descending>(a) < ordered_bits<K, descending>(b);
  }
};

/// counts[digit][tile]: how many keys of the tile have the digit.
template <bool descending>
struct CountDigits {
  std::size_t tile;
  unsigned shift;

  template <class K>
  WEIR_KERNEL void operator()(std::size_t index, View<const K> keys, View<std::size_t> counts) const {
    const auto [begin, end] = part_of(keys.size(), index, tile);
    const std::size_t tiles = counts.size() / radix_digits;
    std::size_t count[radix_digits] = {};
    for (std::size_t i = begin; i < end; ++i) ++count[radix_digit<K, descending>(keys[i], shift)];
    for (std::size_t d = 0; d < radix_digits; ++d) counts[d * tiles + index] = count[d];
  }
};
/// Moves each key to its place by the digit, behind all that have a lesser one and those before it that have the same.
template <bool descending>
struct MoveByDigits {
  std::size_t tile;
  unsigned shift;

  template <class K, class V, class W>
  WEIR_KERNEL void operator()(std::size_t index, View<const K> from, View<K> to, View<const std::size_t> up_to,
                              V values, W values_to) const {
    const auto [begin, end] = part_of(from.size(), index, tile);
    const std::size_t tiles = up_to.size() / radix_digits;
    std::size_t next[radix_digits];
    for (std::size_t d = 0; d < radix_digits; ++d) {
      const std::size_t at = d * tiles + index;
      next[d] = at == 0 ? 0 : up_to[at - 1];
    }
    for (std::size_t i = begin; i < end; ++i) {
      const K key = from[i];
      const std::size_t out = next[radix_digit<K, descending>(key, shift)]++;
      to[out] = key;
      move_value(values, i, values_to, out);
    }
  }
};

/// Values beside the keys, or none, as arguments of the kernels above.
template <class V>
struct ValuesToSort {
  const ArrayBase<V>& values;
  Array<V> other;

  ValuesToSort(const ArrayBase<V>& v, StreamArg stream)
      : values(v), other(empty<V>(Place(stream.stream, stream.where), v.size())) {}
  static auto change(const ArrayBase<V>& array, SourceLocation where) { return inout(array, where); }
  static auto read(const ArrayBase<V>& array, SourceLocation where) { return in(array, where); }
  static auto write(const ArrayBase<V>& array, SourceLocation where) { return out(array, where); }
  void copy_back(StreamArg stream) const { copy(stream.stream, values, other, stream.where); }
};
template <>
struct ValuesToSort<NoValues> {
  NoValues values, other;

  ValuesToSort(NoValues, StreamArg) {}
  static NoValues change(NoValues, SourceLocation) { return {}; }
  static NoValues read(NoValues, SourceLocation) { return {}; }
  static NoValues write(NoValues, SourceLocation) { return {}; }
  void copy_back(StreamArg) const {}
};

template <class K, class V, class Compare>
void merge_sort(StreamArg stream, const ArrayBase<K>& keys, const ValuesToSort<V>& values, Compare less) {
  using Values = ValuesToSort<V>;
  const std::size_t n = keys.size();
  std::size_t merges = 0;
  for (std::size_t sorted = algorithm_chunk; sorted < n; sorted *= 2) ++merges;
  // An even number of merges ends where it began: chunks of twice the size save one.
  const bool odd = merges % 2 != 0;
  const std::size_t chunk = odd ? 2 * algorithm_chunk : algorithm_chunk;
  const auto other = empty<K>(Place(stream.stream, stream.where), n);
  const SourceLocation where = stream.where;
  launch(stream, Extent{.size = (n + chunk - 1) / chunk, .name = "sort chunks"},
         SortChunks<Compare>{less, odd ? std::size_t{32} : std::size_t{16}, chunk}, inout(keys, where),
         inout(other, where), Values::change(values.values, where), Values::change(values.other, where));
  const Extent tiles{.size = chunk_count(n), .name = "sort merge"};
  for (std::size_t width = chunk; width < n; width *= 4) {
    launch(stream, tiles, MergeTiles<Compare>{less, width}, in(keys, where), out(other, where),
           Values::read(values.values, where), Values::write(values.other, where));
    launch(stream, tiles, MergeTiles<Compare>{less, 2 * width}, in(other, where), out(keys, where),
           Values::read(values.other, where), Values::write(values.values, where));
  }
}

template <bool descending, class K, class V>
void radix_sort(StreamArg stream, const ArrayBase<K>& keys, const ValuesToSort<V>& values) {
  using Values = ValuesToSort<V>;
  const std::size_t n = keys.size();
  const std::size_t tile = radix_tile(n);
  const std::size_t tiles = (n + tile - 1) / tile;
  const SourceLocation where = stream.where;
  const Place place(stream.stream, where);
  const auto other = empty<K>(place, n);
  const auto counts = empty<std::size_t>(place, radix_digits * tiles);
  const auto pass = [&](const ArrayBase<K>& from, const ArrayBase<K>& to, const auto& values_from,
                        const auto& values_to, unsigned shift) {
    launch(stream, Extent{.size = tiles, .name = "sort count"}, CountDigits<descending>{tile, shift}, in(from, where),
           out(counts, where));
    launch(stream, Extent{.size = 1, .name = "sort totals"}, ScanTotals<std::size_t, Plus>{}, inout(counts, where));
    launch(stream, Extent{.size = tiles, .name = "sort move"}, MoveByDigits<descending>{tile, shift}, in(from, where),
           out(to, where), in(counts, where), Values::read(values_from, where), Values::write(values_to, where));
  };
  for (unsigned shift = 0; shift < 8 * sizeof(K); shift += 16) {
    pass(keys, other, values.values, values.other, shift);
    if constexpr (sizeof(K) == 1) {
      copy(stream.stream, keys, other, where);
      values.copy_back(stream);
    } else {
      pass(other, keys, values.other, values.values, shift + 8);
    }
  }
}

template <class K, class V, class Compare>
void sort_by_kernels(StreamArg stream, const ArrayBase<K>& keys, const V& values, Compare less) {
  const ValuesToSort<typename V::element_type> both(values, stream);
  if constexpr (sorts_by_bits<K, Compare>) {
    constexpr bool descending = std::is_same_v<Compare, Greater>;
    if (keys.size() > algorithm_chunk) return radix_sort<descending>(stream, keys, both);
    // Few elements are sorted at once.
    if constexpr (std::is_floating_point_v<K>) return merge_sort(stream, keys, both, LessBits<descending>{});
  }
  merge_sort(stream, keys, both, less);
}

}  // namespace detail

/// Sorts x in place: less(b, a) is true for no a before b. Stable. Asynchronous, in the order of `stream`; a
/// one-dimensional array or slice. Numbers in the order of Less or Greater are sorted by their bits: a NaN comes beyond the
/// infinity of its sign. Takes scratch memory of x's size from the stream's pool. Throws wrong_shape.
template <class T, class Compare = Less, class Compiler = detail::ThisCompiler>
void sort(StreamArg stream, const ArrayBase<T>& x, Compare less = {}) {
  static_assert(!std::is_const_v<T>, "weir::sort needs an array that can be written");
  static_assert(std::is_const_v<T> || std::is_invocable_r_v<bool, const Compare&, const T&, const T&>,
                "weir::sort needs a comparison that can be called as less(a, b), by a const call operator");
  detail::check_stream(stream, "weir::sort");
  detail::check_function(less, "weir::sort", "comparison", stream.where);
  if (detail::length_of(x, stream, "weir::sort") < 2) return;
  if (detail::OnDevice<Compiler>::sort(stream.stream, x, detail::NoValues{}, less, "weir::sort", stream.where)) return;
  detail::sort_by_kernels(stream, x, detail::NoValues{}, less);
}

/// Sorts keys as sort() does, and moves values[i] with keys[i]. Throws wrong_shape for different lengths, overlapping.
template <class K, class V, class Compare = Less, class Compiler = detail::ThisCompiler>
void sort_by_key(StreamArg stream, const ArrayBase<K>& keys, const ArrayBase<V>& values, Compare less = {}) {
  constexpr const char* operation = "weir::sort_by_key";
  static_assert(!std::is_const_v<K> && !std::is_const_v<V>, "weir::sort_by_key needs arrays that can be written");
  static_assert(std::is_const_v<K> || std::is_invocable_r_v<bool, const Compare&, const K&, const K&>,
                "weir::sort_by_key needs a comparison that can be called as less(a, b), by a const call operator");
  detail::check_stream(stream, operation);
  detail::check_function(less, operation, "comparison", stream.where);
  detail::check_algorithm(operation, detail::length_of(keys, stream, operation),
                          detail::length_of(values, stream, operation), true, stream.where);
  detail::check_apart(operation, stream.where, keys, values);
  if (keys.size() < 2) return;
  if (detail::OnDevice<Compiler>::sort(stream.stream, keys, values, less, operation, stream.where)) return;
  detail::sort_by_kernels(stream, keys, values, less);
}

template <class... A>
  requires detail::lack_arrays<1, A...>
void sort(StreamArg, const A&...) { detail::refuse_no_arrays<1, A...>(); }
template <class... A>
  requires detail::lack_arrays<2, A...>
void sort_by_key(StreamArg, const A&...) { detail::refuse_no_arrays<2, A...>(); }

}  // namespace weir
