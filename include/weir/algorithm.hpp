// Stream-ordered algorithms over arrays: transform, reduce, inclusive_scan. They are launches like any others.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/device_algorithm.hpp>
#include <weir/launch.hpp>

namespace weir {

/// Operators that every backend has: WEIR_KERNEL versions of the standard ones.
struct Plus {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a + b);
  }
};
struct Multiplies {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return static_cast<T>(a * b);
  }
};
struct Minimum {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return b < a ? b : a;
  }
};
struct Maximum {
  template <class T>
  WEIR_KERNEL constexpr T operator()(const T& a, const T& b) const {
    return a < b ? b : a;
  }
};

namespace detail {

/// Elements of one partial result. A constant, so that results do not depend on how many threads there are.
inline constexpr std::size_t algorithm_chunk = 4096;

constexpr std::size_t chunk_count(std::size_t n) { return (n + algorithm_chunk - 1) / algorithm_chunk; }

template <class T, class Op>
struct ReduceChunk {
  Op op;
  WEIR_KERNEL void operator()(std::size_t chunk, View<const T> x, View<T> partial) const {
    const std::size_t begin = chunk * algorithm_chunk;
    const std::size_t end = begin + algorithm_chunk < x.size() ? begin + algorithm_chunk : x.size();
    T sum = x[begin];
    for (std::size_t i = begin + 1; i < end; ++i) sum = op(sum, x[i]);
    partial[chunk] = sum;
  }
};
template <class T, class Op>
struct ReduceAll {
  Op op;
  WEIR_KERNEL void operator()(std::size_t, View<const T> partial, View<T> result) const {
    T sum = partial[0];
    for (std::size_t i = 1; i < partial.size(); ++i) sum = op(sum, partial[i]);
    result[0] = sum;
  }
};
template <class T, class Op>
struct ScanTotals {
  Op op;
  WEIR_KERNEL void operator()(std::size_t, View<T> totals) const {
    for (std::size_t i = 1; i < totals.size(); ++i) totals[i] = op(totals[i - 1], totals[i]);
  }
};
template <class T, class Op>
struct ScanChunk {
  Op op;
  WEIR_KERNEL void operator()(std::size_t chunk, View<const T> x, View<const T> totals, View<T> y) const {
    const std::size_t begin = chunk * algorithm_chunk;
    const std::size_t end = begin + algorithm_chunk < x.size() ? begin + algorithm_chunk : x.size();
    T sum = chunk == 0 ? x[begin] : op(totals[chunk - 1], x[begin]);
    y[begin] = sum;
    for (std::size_t i = begin + 1; i < end; ++i) {
      sum = op(sum, x[i]);
      y[i] = sum;
    }
  }
};
template <class F>
struct TransformOne {
  F f;
  template <class X, class Y>
  WEIR_KERNEL void operator()(std::size_t i, View<const X> x, View<Y> y) const {
    y[i] = f(x[i]);
  }
};
template <class F>
struct TransformTwo {
  F f;
  template <class A, class B, class Y>
  WEIR_KERNEL void operator()(std::size_t i, View<const A> a, View<const B> b, View<Y> y) const {
    y[i] = f(a[i], b[i]);
  }
};

/// What a device compiler adds: an algorithm of its own for GPUs. True if it did the work.
template <class Compiler>
struct OnDevice {
  template <class... A>
  static bool reduce(const A&...) {
    return false;
  }
  template <class... A>
  static bool scan(const A&...) {
    return false;
  }
};
#if defined(__CUDACC__)
template <>
struct OnDevice<DeviceCompiler> {
  template <class X, class T, class Op>
  static bool reduce(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& result, Op op, SourceLocation where) {
    return reduce_on_device<T, Op>(stream, x, result, op, where);
  }
  template <class X, class T, class Op>
  static bool scan(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, Op op, SourceLocation where) {
    return scan_on_device<T, Op>(stream, x, y, op, where);
  }
};
#endif

void check_algorithm(const char* operation, std::size_t n, std::size_t other, bool empty_allowed, SourceLocation where);

void check_line(std::size_t rank, const char* operation, SourceLocation where);

/// An operand's length. Throws invalid_handle for an array that was moved from, wrong_shape for a plane.
template <class T>
std::size_t length_of(const ArrayBase<T>& array, const char* operation, SourceLocation where) {
  require(array.storage(), operation, where);
  check_line(array.rank(), operation, where);
  return array.size();
}

}  // namespace detail

/// y[i] = f(x[i]). Asynchronous, in the order of `stream`; one-dimensional arrays or slices of one length; y may be x.
/// Throws wrong_shape.
template <class X, class Y, class F>
void transform(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<Y>& y, F f) {
  detail::check_algorithm("weir::transform", detail::length_of(x, "weir::transform", stream.where),
                          detail::length_of(y, "weir::transform", stream.where), true, stream.where);
  launch(stream, Extent{.size = x.size(), .name = "transform"}, detail::TransformOne<F>{f}, in(x, stream.where),
         out(y, stream.where));
}
/// y[i] = f(a[i], b[i]).
template <class A, class B, class Y, class F>
void transform(StreamArg stream, const ArrayBase<A>& a, const ArrayBase<B>& b, const ArrayBase<Y>& y, F f) {
  detail::check_algorithm("weir::transform", detail::length_of(a, "weir::transform", stream.where),
                          detail::length_of(y, "weir::transform", stream.where), true, stream.where);
  detail::check_algorithm("weir::transform", detail::length_of(b, "weir::transform", stream.where), y.size(), true,
                          stream.where);
  launch(stream, Extent{.size = a.size(), .name = "transform"}, detail::TransformTwo<F>{f}, in(a, stream.where),
         in(b, stream.where), out(y, stream.where));
}

/// result[0] = x[0] op x[1] op ...; op is associative. The grouping is fixed by the length alone, so a result in floating
/// point is the same each time. Asynchronous. x has at least one element. Throws wrong_shape.
template <class X, class T, class Op = Plus, class Compiler = detail::ThisCompiler>
void reduce(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& result, Op op = {}) {
  static_assert(std::is_same_v<std::remove_const_t<X>, T>, "weir::reduce needs a result of the elements' type");
  detail::check_algorithm("weir::reduce", detail::length_of(x, "weir::reduce", stream.where), x.size(), false,
                          stream.where);
  detail::check_algorithm("weir::reduce", detail::length_of(result, "weir::reduce", stream.where), 1, false,
                          stream.where);
  if (detail::OnDevice<Compiler>::reduce(stream.stream, x, result, op, stream.where)) return;
  const std::size_t chunks = detail::chunk_count(x.size());
  if (chunks == 1) {
    launch(stream, Extent{.size = 1, .name = "reduce"}, detail::ReduceAll<T, Op>{op}, in(x, stream.where),
           out(result, stream.where));
    return;
  }
  auto partial = empty<T>(Place(stream.stream, stream.where), chunks);
  launch(stream, Extent{.size = chunks, .name = "reduce chunks"}, detail::ReduceChunk<T, Op>{op}, in(x, stream.where),
         out(partial, stream.where));
  launch(stream, Extent{.size = 1, .name = "reduce"}, detail::ReduceAll<T, Op>{op}, in(partial, stream.where),
         out(result, stream.where));
}

/// y[i] = x[0] op ... op x[i]. As reduce; y may be x. An empty x is nothing to do.
template <class X, class T, class Op = Plus, class Compiler = detail::ThisCompiler>
void inclusive_scan(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& y, Op op = {}) {
  static_assert(std::is_same_v<std::remove_const_t<X>, T>, "weir::inclusive_scan needs a result of the elements' type");
  detail::check_algorithm("weir::inclusive_scan", detail::length_of(x, "weir::inclusive_scan", stream.where),
                          detail::length_of(y, "weir::inclusive_scan", stream.where), true, stream.where);
  if (x.size() == 0) return;
  if (detail::OnDevice<Compiler>::scan(stream.stream, x, y, op, stream.where)) return;
  const std::size_t chunks = detail::chunk_count(x.size());
  auto totals = empty<T>(Place(stream.stream, stream.where), chunks);
  if (chunks > 1) {
    launch(stream, Extent{.size = chunks, .name = "scan chunks"}, detail::ReduceChunk<T, Op>{op}, in(x, stream.where),
           out(totals, stream.where));
    launch(stream, Extent{.size = 1, .name = "scan totals"}, detail::ScanTotals<T, Op>{op},
           inout(totals, stream.where));
  }
  launch(stream, Extent{.size = chunks, .name = "scan"}, detail::ScanChunk<T, Op>{op}, in(x, stream.where),
         in(totals.slice(0, chunks > 1 ? chunks : 0), stream.where),
         out(y, stream.where));  // the first chunk needs none
}

}  // namespace weir
