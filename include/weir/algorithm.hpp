// Stream-ordered algorithms over arrays: for_each, transform, reduce and scans. They are launches like any others. See also
// sort.hpp, select.hpp, histogram.hpp and segments.hpp.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/copy.hpp>
#include <weir/detail/device_algorithm.hpp>
#include <weir/launch.hpp>
#include <weir/operators.hpp>

namespace weir {

namespace detail {

/// Elements of one partial result. A constant, so that results do not depend on how many threads there are.
inline constexpr std::size_t algorithm_chunk = 4096;

/// The elements of one part of an array: [begin, end).
struct Part {
  std::size_t begin;
  std::size_t end;
};
WEIR_KERNEL constexpr Part part_of(std::size_t n, std::size_t index, std::size_t size = algorithm_chunk) {
  const std::size_t begin = index * size;
  return {begin, begin + size < n ? begin + size : n};
}
constexpr std::size_t chunk_count(std::size_t n) { return (n + algorithm_chunk - 1) / algorithm_chunk; }

template <class T, class Op>
struct ReduceChunk {
  Op op;
  WEIR_KERNEL void operator()(std::size_t chunk, View<const T> x, View<T> partial) const {
    const auto [begin, end] = part_of(x.size(), chunk);
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
    const auto [begin, end] = part_of(x.size(), chunk);
    T sum = chunk == 0 ? x[begin] : op(totals[chunk - 1], x[begin]);
    y[begin] = sum;
    for (std::size_t i = begin + 1; i < end; ++i) {
      sum = op(sum, x[i]);
      y[i] = sum;
    }
  }
};
/// As ScanChunk, where each element gets what comes before it.
template <class T, class Op>
struct ExclusiveChunk {
  Op op;
  T init;
  WEIR_KERNEL void operator()(std::size_t chunk, View<const T> x, View<const T> totals, View<T> y) const {
    const auto [begin, end] = part_of(x.size(), chunk);
    T sum = chunk == 0 ? init : op(init, totals[chunk - 1]);
    for (std::size_t i = begin; i < end; ++i) {
      const T here = x[i];
      y[i] = sum;
      sum = op(sum, here);
    }
  }
};
template <class F>
struct ForEach {
  F f;
  template <class X>
  WEIR_KERNEL void operator()(std::size_t i, View<X> x) const {
    f(x[i]);
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
  template <class... A>
  static bool exclusive_scan(const A&...) {
    return false;
  }
  template <class... A>
  static bool sort(const A&...) {
    return false;
  }
  template <class... A>
  static bool select(const A&...) {
    return false;
  }
  template <class... A>
  static bool histogram(const A&...) {
    return false;
  }
  template <class... A>
  static bool reduce_by_key(const A&...) {
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
  template <class X, class T, class Op>
  static bool exclusive_scan(StreamRef stream, const ArrayBase<X>& x, const ArrayBase<T>& y, T init, Op op,
                             SourceLocation where) {
    return exclusive_scan_on_device<T, Op>(stream, x, y, init, op, where);
  }
  template <class... A>
  static bool sort(StreamRef stream, const A&... arguments) {
    return sort_on_device(stream, arguments...);
  }
  template <class... A>
  static bool select(StreamRef stream, const A&... arguments) {
    return select_on_device(stream, arguments...);
  }
  template <class... A>
  static bool histogram(StreamRef stream, const A&... arguments) {
    return histogram_on_device(stream, arguments...);
  }
  template <class... A>
  static bool reduce_by_key(StreamRef stream, const A&... arguments) {
    return reduce_by_key_on_device(stream, arguments...);
  }
};
#endif

template <class Op, class T>
concept combines = std::is_invocable_r_v<T, const Op&, const T&, const T&>;

/// Whether the first `count` of these are arrays.
template <std::size_t count, class... A>
constexpr bool begin_with_arrays() {
  std::size_t number = 0;
  return ((number++ >= count || array_object<A>)&&...);
}
/// What calls with something else in an array's place meet: overloads that say so.
template <std::size_t count, class... A>
concept lack_arrays = sizeof...(A) < count || !begin_with_arrays<count, A...>();
template <std::size_t count, class... A>
constexpr void refuse_no_arrays() {
  static_assert(
      !lack_arrays<count, A...>,
      "algorithms take a weir::Array or Slice, as it is, for each operand and for the result: make one of a host "
      "range, as with weir::from, and read results by to_host()");
}

/// Throws invalid_handle in the name of the whole for a stream that was moved from or destroyed.
void check_stream(const StreamArg& stream, const char* operation);

void check_algorithm(const char* operation, std::size_t n, std::size_t other, bool empty_allowed, SourceLocation where);

void check_line(std::size_t rank, const char* operation, SourceLocation where);

/// Throws overlapping if two of the arrays share memory.
void check_apart(const char* operation, SourceLocation where, std::span<const Endpoint> arrays);
template <class... T>
void check_apart(const char* operation, SourceLocation where, const ArrayBase<T>&... arrays) {
  const Endpoint ends[] = {endpoint(arrays)...};
  check_apart(operation, where, std::span<const Endpoint>(ends));
}

/// Throws overlapping if `to` shares memory with `from`, but for the same elements one by one.
template <class A, class B>
void check_in_place(const char* operation, SourceLocation where, const ArrayBase<A>& from, const ArrayBase<B>& to) {
  if (from.storage() != to.storage()) return;
  const bool steps_alike = from.size() < 2 || from.plain_view().stride(0) == to.plain_view().stride(0);
  const void* const begin = from.data();
  if (begin == to.data() && steps_alike) return;
  check_apart(operation, where, from, to);
}

/// An operand's length. Throws invalid_handle for an array that was moved from, already_freed, wrong_shape for a plane,
/// wrong_memory and wrong_device for elements that kernels of the stream do not reach.
template <class T>
std::size_t length_of(const ArrayBase<T>& array, const StreamArg& stream, const char* operation) {
  const Storage& storage = require(array.storage(), operation, stream.where);
  check_not_freed(storage, operation, stream.where);
  check_line(array.rank(), operation, stream.where);
  if (array.size() != 0) check_kernel_use(storage, stream.stream, operation, stream.where);
  return array.size();
}

/// What op gives for all elements up to the end of each chunk; empty where there is one chunk, which needs nothing.
template <class T, class X, class Op>
Array<T> chunk_totals(StreamArg stream, const ArrayBase<X>& x, Op op) {
  const std::size_t chunks = chunk_count(x.size());
  auto totals = empty<T>(Place(stream.stream, stream.where), chunks > 1 ? chunks : 0);
  if (chunks > 1) {
    launch(stream, Extent{.size = chunks, .name = "scan chunks"}, ReduceChunk<T, Op>{op}, in(x, stream.where),
           out(totals, stream.where));
    launch(stream, Extent{.size = 1, .name = "scan totals"}, ScanTotals<T, Op>{op}, inout(totals, stream.where));
  }
  return totals;
}

}  // namespace detail

/// f(x[i]) for every element, in any order and in parallel; f may change the element that it is given, as `T&`. Asynchronous,
/// in the order of `stream`; a one-dimensional array or slice. Throws wrong_shape.
template <class T, class F>
void for_each(StreamArg stream, const ArrayBase<T>& x, F f) {
  static_assert(std::is_invocable_v<const F&, T&>,
                "weir::for_each needs a function that can be called as f(x[i]), by a const call operator");
  detail::check_stream(stream, "weir::for_each");
  detail::check_function(f, "weir::for_each", "function", stream.where);
  detail::length_of(x, stream, "weir::for_each");
  const Extent extent{.size = x.size(), .name = "for_each"};
  if constexpr (std::is_const_v<T>) {
    launch(stream, extent, detail::ForEach<F>{f}, in(x, stream.where));
  } else {
    launch(stream, extent, detail::ForEach<F>{f}, inout(x, stream.where));
  }
}

/// y[i] = f(x[i]). Asynchronous, in the order of `stream`; one-dimensional arrays or slices of one length; y may be x.
/// Throws wrong_shape, overlapping for other memory that they share.
template <class X, class Y, class F>
void transform(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<Y>& y, F f) {
  static_assert(
      requires(const F& g, const X& one, Y& to) { to = g(one); },
      "weir::transform needs a function that can be called as y[i] = f(x[i]), by a const call operator");
  detail::check_stream(stream, "weir::transform");
  detail::check_function(f, "weir::transform", "function", stream.where);
  detail::check_algorithm("weir::transform", detail::length_of(x, stream, "weir::transform"),
                          detail::length_of(y, stream, "weir::transform"), true, stream.where);
  detail::check_in_place("weir::transform", stream.where, x, y);
  launch(stream, Extent{.size = x.size(), .name = "transform"}, detail::TransformOne<F>{f}, in(x, stream.where),
         out(y, stream.where));
}
/// y[i] = f(a[i], b[i]).
template <class A, class B, class Y, class F>
void transform(StreamArg stream, const ArrayBase<A>& a, const ArrayBase<B>& b, const ArrayBase<Y>& y, F f) {
  static_assert(
      requires(const F& g, const A& one, const B& other, Y& to) { to = g(one, other); },
      "weir::transform needs a function that can be called as y[i] = f(a[i], b[i]), by a const call operator");
  detail::check_stream(stream, "weir::transform");
  detail::check_function(f, "weir::transform", "function", stream.where);
  detail::check_algorithm("weir::transform", detail::length_of(a, stream, "weir::transform"),
                          detail::length_of(y, stream, "weir::transform"), true, stream.where);
  detail::check_algorithm("weir::transform", detail::length_of(b, stream, "weir::transform"), y.size(), true,
                          stream.where);
  detail::check_in_place("weir::transform", stream.where, a, y);
  detail::check_in_place("weir::transform", stream.where, b, y);
  launch(stream, Extent{.size = a.size(), .name = "transform"}, detail::TransformTwo<F>{f}, in(a, stream.where),
         in(b, stream.where), out(y, stream.where));
}

/// result[0] = x[0] op x[1] op ...; op is associative. The grouping is fixed by the length alone, so a result in floating
/// point is the same each time. Asynchronous. x has at least one element. Throws wrong_shape.
template <class X, class T, class Op = Plus, class Compiler = detail::ThisCompiler>
void reduce(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& result, Op op = {}) {
  static_assert(std::is_same_v<std::remove_const_t<X>, T>, "weir::reduce needs a result of the elements' type");
  static_assert(!std::is_same_v<std::remove_const_t<X>, T> || detail::combines<Op, T>,
                "weir::reduce needs an operator that can be called as op(a, b), by a const call operator, and gives an "
                "element");
  detail::check_stream(stream, "weir::reduce");
  detail::check_function(op, "weir::reduce", "function", stream.where);
  detail::check_algorithm("weir::reduce", detail::length_of(x, stream, "weir::reduce"), x.size(), false, stream.where);
  detail::check_algorithm("weir::reduce", detail::length_of(result, stream, "weir::reduce"), 1, false, stream.where);
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

template <class X>
void reduce(StreamArg, const ArrayBase<X>&) {
  static_assert(
      !std::is_same_v<X, X>,
      "weir::reduce writes its result in stream order, to an array of one element: weir::reduce(stream, x, result)");
}

/// y[i] = x[0] op ... op x[i]. As reduce; y may be x, and shares no other memory with it. An empty x is nothing to do.
template <class X, class T, class Op = Plus, class Compiler = detail::ThisCompiler>
void inclusive_scan(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& y, Op op = {}) {
  static_assert(std::is_same_v<std::remove_const_t<X>, T>, "weir::inclusive_scan needs a result of the elements' type");
  static_assert(
      !std::is_same_v<std::remove_const_t<X>, T> || detail::combines<Op, T>,
      "weir::inclusive_scan needs an operator that can be called as op(a, b), by a const call operator, and gives an "
      "element");
  detail::check_stream(stream, "weir::inclusive_scan");
  detail::check_function(op, "weir::inclusive_scan", "function", stream.where);
  detail::check_algorithm("weir::inclusive_scan", detail::length_of(x, stream, "weir::inclusive_scan"),
                          detail::length_of(y, stream, "weir::inclusive_scan"), true, stream.where);
  detail::check_in_place("weir::inclusive_scan", stream.where, x, y);
  if (x.size() == 0) return;
  if (detail::OnDevice<Compiler>::scan(stream.stream, x, y, op, stream.where)) return;
  const auto totals = detail::chunk_totals<T>(stream, x, op);
  launch(stream, Extent{.size = detail::chunk_count(x.size()), .name = "scan"}, detail::ScanChunk<T, Op>{op},
         in(x, stream.where), in(totals, stream.where), out(y, stream.where));
}

/// y[0] = init, y[i] = init op x[0] op ... op x[i - 1]. As inclusive_scan.
template <class X, class T, class Op = Plus, class Compiler = detail::ThisCompiler>
void exclusive_scan(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& y, std::type_identity_t<T> init = T{},
                    Op op = {}) {
  static_assert(std::is_same_v<std::remove_const_t<X>, T>, "weir::exclusive_scan needs a result of the elements' type");
  static_assert(
      !std::is_same_v<std::remove_const_t<X>, T> || detail::combines<Op, T>,
      "weir::exclusive_scan needs an operator that can be called as op(a, b), by a const call operator, and gives an "
      "element");
  constexpr const char* operation = "weir::exclusive_scan";
  detail::check_stream(stream, operation);
  detail::check_function(op, operation, "function", stream.where);
  detail::check_algorithm(operation, detail::length_of(x, stream, operation), detail::length_of(y, stream, operation),
                          true, stream.where);
  detail::check_in_place(operation, stream.where, x, y);
  if (x.size() == 0) return;
  if (detail::OnDevice<Compiler>::exclusive_scan(stream.stream, x, y, init, op, stream.where)) return;
  const auto totals = detail::chunk_totals<T>(stream, x, op);
  launch(stream, Extent{.size = detail::chunk_count(x.size()), .name = "exclusive scan"},
         detail::ExclusiveChunk<T, Op>{op, init}, in(x, stream.where), in(totals, stream.where), out(y, stream.where));
}

/// Do not compile, and say what to write.
template <class X>
void for_each(StreamArg, const ArrayBase<X>&) {
  static_assert(!std::is_same_v<X, X>,
                "weir::for_each calls a function for each element: weir::for_each(stream, x, function)");
}
template <class X, class Y>
void transform(StreamArg, const ArrayBase<X>&, const ArrayBase<Y>&) {
  static_assert(!std::is_same_v<X, X>,
                "weir::transform calls a function for each element: weir::transform(stream, x, y, function)");
}
template <class... A>
  requires detail::lack_arrays<1, A...>
void for_each(StreamArg, const A&...) { detail::refuse_no_arrays<1, A...>(); }
template <class... A>
  requires detail::lack_arrays<sizeof...(A) == 4 ? 3 : 2, A...>
void transform(StreamArg, const A&...) { detail::refuse_no_arrays<sizeof...(A) == 4 ? 3 : 2, A...>(); }
template <class... A>
  requires(sizeof...(A) != 1 && detail::lack_arrays<2, A...>)
void reduce(StreamArg, const A&...) { detail::refuse_no_arrays<2, A...>(); }
template <class... A>
  requires detail::lack_arrays<2, A...>
void inclusive_scan(StreamArg, const A&...) { detail::refuse_no_arrays<2, A...>(); }
template <class... A>
  requires detail::lack_arrays<2, A...>
void exclusive_scan(StreamArg, const A&...) { detail::refuse_no_arrays<2, A...>(); }

}  // namespace weir
