// Stream-ordered reductions of parts of an array: reduce_segments by offsets, reduce_by_key by runs of equal keys.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/launch.hpp>

namespace weir {

namespace detail {

/// Throws wrong_shape unless there is one offset more than results.
void check_segments(std::size_t offsets, std::size_t results, const char* operation, SourceLocation where);

template <class T, class Op>
struct ReduceSegment {
  Op op;
  T init;
  template <class N>
  WEIR_KERNEL void operator()(std::size_t segment, View<const T> x, View<const N> offsets, View<T> result) const {
    const std::size_t end = clamped(offsets[segment + 1], x.size());
    T sum = init;
    for (std::size_t i = clamped(offsets[segment], x.size()); i < end; ++i) sum = op(sum, x[i]);
    result[segment] = sum;
  }

 private:
  template <class N>
  WEIR_KERNEL static std::size_t clamped(N offset, std::size_t n) {
    if (offset < N{0}) return 0;
    return static_cast<std::size_t>(offset) < n ? static_cast<std::size_t>(offset) : n;
  }
};

/// What a chunk knows by itself: how many runs begin in it, and what the run that is open at its end has there so far.
template <class V, class Op>
struct KeyChunk {
  Op op;
  template <class K>
  WEIR_KERNEL void operator()(std::size_t chunk, View<const K> keys, View<const V> values, View<std::size_t> heads,
                              View<V> open) const {
    const auto [begin, end] = part_of(keys.size(), chunk);
    std::size_t count = begin == 0 || !(keys[begin] == keys[begin - 1]) ? 1 : 0;
    V sum = values[begin];
    for (std::size_t i = begin + 1; i < end; ++i) {
      if (keys[i] == keys[i - 1]) {
        sum = op(sum, values[i]);
      } else {
        ++count;
        sum = values[i];
      }
    }
    heads[chunk] = count;
    open[chunk] = sum;
  }
};
/// Makes heads[chunk] the runs that begin up to its end, and open[chunk] what the run that is open there has in all.
template <class V, class Op>
struct KeyTotals {
  Op op;
  template <class N>
  WEIR_KERNEL void operator()(std::size_t, View<std::size_t> heads, View<V> open, View<N> total) const {
    for (std::size_t chunk = 1; chunk < heads.size(); ++chunk) {
      if (heads[chunk] == 0) open[chunk] = op(open[chunk - 1], open[chunk]);
      heads[chunk] += heads[chunk - 1];
    }
    total[0] = static_cast<N>(heads[heads.size() - 1]);
  }
};
/// A run is written where it ends.
template <class V, class Op>
struct KeyRuns {
  Op op;
  template <class K>
  WEIR_KERNEL void operator()(std::size_t chunk, View<const K> keys, View<const V> values,
                              View<const std::size_t> heads, View<const V> open, View<K> unique, View<V> sums) const {
    const std::size_t n = keys.size();
    const auto [begin, end] = part_of(n, chunk);
    std::size_t runs = chunk == 0 ? 0 : heads[chunk - 1];  // that have begun before i
    V sum = values[begin];
    if (begin == 0 || !(keys[begin] == keys[begin - 1])) {
      ++runs;
    } else {
      sum = op(open[chunk - 1], sum);
    }
    for (std::size_t i = begin;;) {
      const bool ends = i + 1 == n || !(keys[i + 1] == keys[i]);
      if (ends) {
        unique[runs - 1] = keys[i];
        sums[runs - 1] = sum;
      }
      if (++i == end) return;
      sum = ends ? values[i] : op(sum, values[i]);
      runs += static_cast<std::size_t>(ends);
    }
  }
};

}  // namespace detail

/// result[i] = init op x[offsets[i]] op ... op x[offsets[i + 1] - 1]: an empty segment gives init. One offset more than
/// results; segments may overlap and leave elements out, and what lies outside of x is cut off. Asynchronous, in the order of
/// `stream`; one-dimensional arrays or slices. A CPU splits the work by segments, not within one. Throws
/// wrong_shape, overlapping for a result inside of the others.
template <class X, class O, class T, class Op = Plus>
void reduce_segments(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<O>& offsets, const ArrayBase<T>& result,
                     std::type_identity_t<T> init = T{}, Op op = {}) {
  constexpr const char* operation = "weir::reduce_segments";
  static_assert(std::is_same_v<std::remove_const_t<X>, T>,
                "weir::reduce_segments needs a result of the elements' type");
  static_assert(std::integral<std::remove_const_t<O>>, "weir::reduce_segments needs offsets that are integers");
  static_assert(!std::is_same_v<std::remove_const_t<X>, T> || detail::combines<Op, T>,
                "weir::reduce_segments needs an operator that can be called as op(a, b), by a const call operator, and "
                "gives an element");
  const SourceLocation where = stream.where;
  detail::check_stream(stream, operation);
  detail::check_function(op, operation, "function", where);
  detail::length_of(x, stream, operation);
  detail::check_segments(detail::length_of(offsets, stream, operation), detail::length_of(result, stream, operation),
                         operation, where);
  detail::check_apart(operation, where, x, result);
  detail::check_apart(operation, where, offsets, result);
  launch(stream, Extent{.size = result.size(), .name = "reduce segments"}, detail::ReduceSegment<T, Op>{op, init},
         in(x, where), in(offsets, where), out(result, where));
}

/// For each run of equal keys that follow each other: unique[r] is its key, sums[r] what op gives for its values in their
/// order, and count[0] the number of runs; the rest of unique and sums stays as it is. Asynchronous, in the order of `stream`;
/// one-dimensional arrays or slices of one length that share no memory. Sort by the keys first to have each of them once.
/// Throws wrong_shape, overlapping.
template <class K, class V, class U, class T, class N, class Op = Plus, class Compiler = detail::ThisCompiler>
void reduce_by_key(StreamArg stream, const ArrayBase<K>& keys, const ArrayBase<V>& values, const ArrayBase<U>& unique,
                   const ArrayBase<T>& sums, const ArrayBase<N>& count, Op op = {}) {
  constexpr const char* operation = "weir::reduce_by_key";
  static_assert(std::is_same_v<std::remove_const_t<K>, U> && std::is_same_v<std::remove_const_t<V>, T>,
                "weir::reduce_by_key needs outputs of the keys' and the values' types");
  static_assert(std::integral<N> && !std::is_same_v<N, bool>, "weir::reduce_by_key counts in integers");
  static_assert(
      !std::is_same_v<std::remove_const_t<V>, T> || detail::combines<Op, T>,
      "weir::reduce_by_key needs an operator that can be called as op(a, b), by a const call operator, and gives "
      "a value");
  const SourceLocation where = stream.where;
  detail::check_stream(stream, operation);
  detail::check_function(op, operation, "function", where);
  const std::size_t n = detail::length_of(keys, stream, operation);
  detail::check_algorithm(operation, n, detail::length_of(values, stream, operation), true, where);
  detail::check_algorithm(operation, n, detail::length_of(unique, stream, operation), true, where);
  detail::check_algorithm(operation, n, detail::length_of(sums, stream, operation), true, where);
  detail::check_algorithm(operation, detail::length_of(count, stream, operation), 1, false, where);
  detail::check_apart(operation, where, keys, unique, sums, count);
  detail::check_apart(operation, where, values, unique, sums, count);
  const auto total = count.slice(0, 1, where);
  if (n == 0) return fill(stream.stream, total, N{0}, where);
  if (detail::OnDevice<Compiler>::reduce_by_key(stream.stream, keys, values, unique, sums, total, op, operation,
                                                where)) {
    return;
  }
  const std::size_t chunks = detail::chunk_count(n);
  const auto heads = empty<std::size_t>(Place(stream.stream, where), chunks);
  const auto open = empty<T>(Place(stream.stream, where), chunks);
  launch(stream, Extent{.size = chunks, .name = "reduce chunks by key"}, detail::KeyChunk<T, Op>{op}, in(keys, where),
         in(values, where), out(heads, where), out(open, where));
  launch(stream, Extent{.size = 1, .name = "reduce totals by key"}, detail::KeyTotals<T, Op>{op}, inout(heads, where),
         inout(open, where), out(total, where));
  launch(stream, Extent{.size = chunks, .name = "reduce by key"}, detail::KeyRuns<T, Op>{op}, in(keys, where),
         in(values, where), in(heads, where), in(open, where), out(unique, where), out(sums, where));
}

template <class... A>
  requires detail::lack_arrays<3, A...>
void reduce_segments(StreamArg, const A&...) { detail::refuse_no_arrays<3, A...>(); }
template <class... A>
  requires detail::lack_arrays<5, A...>
void reduce_by_key(StreamArg, const A&...) { detail::refuse_no_arrays<5, A...>(); }

}  // namespace weir
