// Stream-ordered choice: select_if and partition. Both keep the order of the elements.
#pragma once

#include <concepts>
#include <cstddef>
#include <type_traits>

#include <weir/algorithm.hpp>
#include <weir/array.hpp>
#include <weir/launch.hpp>

namespace weir {

namespace detail {

template <class Predicate>
struct CountChosen {
  Predicate chosen;
  template <class T>
  WEIR_KERNEL void operator()(std::size_t chunk, View<const T> x, View<std::size_t> counts) const {
    const auto [begin, end] = part_of(x.size(), chunk);
    std::size_t count = 0;
    for (std::size_t i = begin; i < end; ++i) count += static_cast<std::size_t>(static_cast<bool>(chosen(x[i])));
    counts[chunk] = count;
  }
};
/// Makes of each chunk's count what is chosen up to its end, and says how many that are in all.
struct TotalChosen {
  template <class N>
  WEIR_KERNEL void operator()(std::size_t, View<std::size_t> counts, View<N> total) const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = sum += counts[i];
    total[0] = static_cast<N>(sum);
  }
};
/// The others follow the chosen ones where `all` is set, and are left out elsewhere.
template <class Predicate, bool all>
struct MoveChosen {
  Predicate chosen;
  template <class T>
  WEIR_KERNEL void operator()(std::size_t chunk, View<const T> x, View<const std::size_t> up_to, View<T> y) const {
    const auto [begin, end] = part_of(x.size(), chunk);
    std::size_t next = chunk == 0 ? 0 : up_to[chunk - 1];
    // Without a branch for each element: on mixed ones it would be mispredicted every other time.
    if constexpr (all) {
      std::size_t other = up_to[up_to.size() - 1] + (begin - next);
      for (std::size_t i = begin; i < end; ++i) {
        const T here = x[i];
        const bool is_chosen = static_cast<bool>(chosen(here));
        const std::size_t mask = std::size_t{0} - static_cast<std::size_t>(is_chosen);
        y[(next & mask) | (other & ~mask)] = here;
        next += static_cast<std::size_t>(is_chosen);
        other += static_cast<std::size_t>(!is_chosen);
      }
    } else {
      const std::size_t last = up_to[chunk];
      for (std::size_t i = begin; i < end && next < last; ++i) {
        const T here = x[i];
        y[next] = here;
        next += static_cast<std::size_t>(static_cast<bool>(chosen(here)));
      }
    }
  }
};
/// Turns round what stands behind the first total[0] elements.
struct ReverseRest {
  template <class T, class N>
  WEIR_KERNEL void operator()(std::size_t i, View<T> y, View<const N> total) const {
    const std::size_t first = static_cast<std::size_t>(total[0]);
    if (i >= (y.size() - first) / 2) return;
    const T one = y[first + i];
    y[first + i] = y[y.size() - 1 - i];
    y[y.size() - 1 - i] = one;
  }
};

template <bool all, class Compiler, class X, class T, class N, class Predicate>
void select(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& y, const ArrayBase<N>& count,
            const Predicate& chosen, const char* operation) {
  static_assert(std::is_same_v<std::remove_const_t<X>, T>,
                "weir::select_if and weir::partition need an output of the elements' type");
  static_assert(std::integral<N> && !std::is_same_v<N, bool>, "weir::select_if and weir::partition count in integers");
  static_assert(
      requires(const Predicate& ask, const T& element) { static_cast<bool>(ask(element)); },
      "weir::select_if and weir::partition need a predicate that can be called as chosen(x[i]), by a const call "
      "operator");
  const SourceLocation where = stream.where;
  check_stream(stream, operation);
  check_function(chosen, operation, "predicate", where);
  check_algorithm(operation, length_of(x, stream, operation), length_of(y, stream, operation), true, where);
  check_algorithm(operation, length_of(count, stream, operation), 1, false, where);
  check_apart(operation, where, x, y, count);
  const auto total = count.slice(0, 1, where);
  if (x.size() == 0) return fill(stream.stream, total, N{0}, where);
  if (OnDevice<Compiler>::select(stream.stream, x, y, total, chosen, std::bool_constant<all>{}, operation, where)) {
    if constexpr (all) {
      launch(stream, Extent{.size = x.size() / 2, .name = "partition rest"}, ReverseRest{}, inout(y, where),
             in(total, where));
    }
    return;
  }
  const std::size_t chunks = chunk_count(x.size());
  const auto counts = empty<std::size_t>(Place(stream.stream, where), chunks);
  launch(stream, Extent{.size = chunks, .name = "select count"}, CountChosen<Predicate>{chosen}, in(x, where),
         out(counts, where));
  launch(stream, Extent{.size = 1, .name = "select total"}, TotalChosen{}, inout(counts, where), out(total, where));
  launch(stream, Extent{.size = chunks, .name = all ? "partition" : "select"}, MoveChosen<Predicate, all>{chosen},
         in(x, where), in(counts, where), out(y, where));
}

}  // namespace detail

/// y gets the elements of x for which chosen(element) is true, in their order, and count[0] says how many they are; the
/// rest of y stays as it is. `chosen` may be called several times for an element, and must return the same each time. Asynchronous, in the order of
/// `stream`; one-dimensional arrays or slices, y as long as x, that share no memory. Throws wrong_shape, overlapping.
template <class X, class T, class N, class Predicate, class Compiler = detail::ThisCompiler>
void select_if(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& y, const ArrayBase<N>& count,
               Predicate chosen) {
  detail::select<false, Compiler>(stream, x, y, count, chosen, "weir::select_if");
}

/// y gets all elements of x: first those for which chosen(element) is true, count[0] in number, then the others, both in
/// their order. Else as select_if.
template <class X, class T, class N, class Predicate, class Compiler = detail::ThisCompiler>
void partition(StreamArg stream, const ArrayBase<X>& x, const ArrayBase<T>& y, const ArrayBase<N>& count,
               Predicate chosen) {
  detail::select<true, Compiler>(stream, x, y, count, chosen, "weir::partition");
}

template <class... A>
  requires detail::lack_arrays<3, A...>
void select_if(StreamArg, const A&...) { detail::refuse_no_arrays<3, A...>(); }
template <class... A>
  requires detail::lack_arrays<3, A...>
void partition(StreamArg, const A&...) { detail::refuse_no_arrays<3, A...>(); }

}  // namespace weir
