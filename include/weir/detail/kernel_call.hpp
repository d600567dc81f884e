// What is wrong with the call of a kernel that does not compile: one sentence for each mistake. For the library.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include <weir/array.hpp>
#include <weir/block.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/kernel.hpp>
#include <weir/view.hpp>

namespace weir::detail {

template <class T>
inline constexpr bool is_index = std::is_integral_v<T>;
template <std::size_t R>
inline constexpr bool is_index<Index<R>> = true;

/// Compilers print the template's arguments beside the sentence: which argument it is, and both types.
template <std::size_t argument, class passed, class parameter>
constexpr void check_argument() {
  using Parameter = std::remove_cvref_t<parameter>;
  constexpr bool fits = std::is_convertible_v<const passed&, parameter>;
  if constexpr (fits || array_object<passed> || std::is_same_v<passed, NoArray>) {
    return;  // it fits, or has a sentence of its own
  } else if constexpr (std::is_convertible_v<const passed&, Parameter>) {
    static_assert(fits, "a kernel takes its arguments by value or as const references, not as references to change");
  } else if constexpr (is_view<passed> && is_view<Parameter>) {
    using From = typename passed::element_type;
    using To = typename Parameter::element_type;
    static_assert(!std::is_same_v<From, const To>,
                  "this kernel writes through an argument that was passed with weir::in: pass it with weir::out or "
                  "weir::inout, or make the kernel's parameter a weir::View<const T>");
    static_assert(
        std::is_same_v<std::remove_cv_t<From>, std::remove_cv_t<To>>,
        "an argument of this kernel has elements of another type than the weir::View that the kernel declares: "
        "check_argument<number, passed, declared> names the three");
    static_assert(passed::rank() == Parameter::rank(),
                  "an argument of this kernel has another number of dimensions than the weir::View that the kernel "
                  "declares: check_argument<number, passed, declared> names the three");
  } else if constexpr (is_view<passed>) {
    static_assert(fits,
                  "an array was passed where this kernel declares no weir::View: check_argument<number, passed, "
                  "declared> names the three");
  } else {
    static_assert(
        !is_view<Parameter>,
        "a value was passed where this kernel declares a weir::View: check_argument<number, passed, declared> "
        "names the three");
    static_assert(is_view<Parameter>,
                  "an argument of this kernel does not convert to the type that the kernel declares: "
                  "check_argument<number, passed, declared> names the three");
  }
}

/// First is what the kernel would get before its arguments: an index, or Block&.
template <class Binding, class First>
struct CallCheck;
template <class F, std::size_t R, std::size_t... I, class... A, class First>
struct CallCheck<BindingOf<F, R, std::index_sequence<I...>, A...>, First> {
  using Binding = BindingOf<F, R, std::index_sequence<I...>, A...>;
  static constexpr bool fits = Binding::template invocable<First>;
  static constexpr bool in_blocks = std::is_same_v<First, Block&>;

  /// Whether it compiles; says why if it does not.
  static constexpr bool check() {
    if constexpr (CallParameters<F>::known) {
      if constexpr (CallParameters<F>::count == 0) {
        check_first<void, void>();
      } else {
        check_first<typename ParameterAt<F, 0>::type, typename CallParameters<F>::template declared<0>>();
      }
    }
    if constexpr (!fits) explain();
    return fits;
  }

 private:
  /// P is the type that the first parameter has, Declared that of which it may be a reference.
  template <class P, class Declared>
  static constexpr void check_first() {
    if constexpr (in_blocks) {
      static_assert(!is_index<P>, "this kernel's first parameter is an index: launch it with weir::launch");
      static_assert(std::is_same_v<P, Block> || is_index<P>,
                    "the first parameter of a kernel for weir::launch_blocks is weir::Block&");
      static_assert(!std::is_same_v<P, Block> || std::is_convertible_v<First, Declared>,
                    "a kernel for weir::launch_blocks takes its block as weir::Block&: the block is no value");
    } else {
      static_assert(!std::is_same_v<P, Block>,
                    "this kernel's first parameter is weir::Block: launch it with weir::launch_blocks");
      static_assert(
          !std::is_floating_point_v<P> && (std::is_same_v<P, Block> || is_index<P> || std::is_convertible_v<First, P>),
          "the first parameter of a kernel is its index: std::size_t in one dimension, weir::Index<R> in R");
      static_assert(!std::is_same_v<P, Index<1>>,
                    "in one dimension a kernel's index is std::size_t, not weir::Index<1>");
      static_assert(!is_index<P> || std::is_same_v<P, Index<1>> || std::is_convertible_v<P, Declared>,
                    "a kernel takes its index by value, not as a reference to change");
    }
  }

  static constexpr void explain() {
    static_assert(!is_argument<F> && !array_object<F> && !is_view<F> && !std::is_arithmetic_v<F>,
                  "a kernel comes before its arguments: a functor or lambda, after the extent");
    if constexpr (!std::is_class_v<F> && !CallParameters<F>::known) {
      static_assert(std::is_class_v<F> || is_argument<F> || is_view<F> || std::is_arithmetic_v<F>,
                    "a kernel is a functor, a lambda or a function");
    } else if constexpr (std::is_invocable_v<F&, First, const typename Binding::template bound<I, A>&...>) {
      static_assert(fits,
                    "a kernel's call operator is const, for many threads share one kernel: a lambda is not mutable");
    } else if constexpr (!CallParameters<F>::known) {
      static_assert(fits || in_blocks,
                    "this kernel cannot be called as kernel(index, arguments...) const: index is std::size_t or "
                    "weir::Index<R>, arrays arrive as weir::View, everything else as passed");
      static_assert(fits || !in_blocks,
                    "this kernel cannot be called as kernel(block, arguments...) const: block is weir::Block&, arrays "
                    "arrive as weir::View, everything else as passed");
    } else if constexpr (first_fits<typename ParameterAt<F, 0>::type>()) {
      constexpr std::size_t wanted = CallParameters<F>::count - 1;
      static_assert(wanted <= sizeof...(A), "this kernel takes more arguments than were passed");
      static_assert(wanted >= sizeof...(A), "this kernel takes fewer arguments than were passed");
      if constexpr (wanted == sizeof...(A)) {
        (check_argument<I + 1, typename Binding::template bound<I, A>,
                        typename CallParameters<F>::template declared<I + 1>>(),
         ...);
        constexpr bool all_fit = std::is_convertible_v<First, typename CallParameters<F>::template declared<0>> &&
                                 (std::is_convertible_v<const typename Binding::template bound<I, A>&,
                                                        typename CallParameters<F>::template declared<I + 1>> &&
                                  ...);
        static_assert(fits || !all_fit, "this kernel cannot be called as kernel(index, arguments...) const");
      }
    }
  }

  template <class P>
  static constexpr bool first_fits() {
    return in_blocks ? std::is_same_v<P, Block> : is_index<P> || std::is_convertible_v<First, P>;
  }
};

}  // namespace weir::detail
