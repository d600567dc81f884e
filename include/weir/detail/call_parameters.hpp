// What a kernel declares: the types of its parameters, and of its index. Digestible by nvcc; for the library.
#pragma once

#include <cstddef>
#include <limits>
#include <tuple>
#include <type_traits>

#include <weir/shape.hpp>
#include <weir/source_location.hpp>

namespace weir::detail {

/// The parameters of a functor's one call operator; empty for templates and overloads.
template <class F>
struct CallParameters {
  static constexpr bool known = false;
};
template <class... P>
struct KnownParameters {
  static constexpr bool known = true;
  template <std::size_t I>
  using type = std::tuple_element_t<I, std::tuple<std::remove_cvref_t<P>...>>;
  template <std::size_t I>
  using declared = std::tuple_element_t<I, std::tuple<P...>>;
  static constexpr std::size_t count = sizeof...(P);
};
template <class M>
struct MemberParameters {
  static constexpr bool known = false;
};
template <class C, class R, class... P>
struct MemberParameters<R (C::*)(P...) const> : KnownParameters<P...> {};
template <class C, class R, class... P>
struct MemberParameters<R (C::*)(P...) const noexcept> : KnownParameters<P...> {};
template <class C, class R, class... P>
struct MemberParameters<R (C::*)(P...)> : KnownParameters<P...> {};
template <class C, class R, class... P>
struct MemberParameters<R (C::*)(P...) noexcept> : KnownParameters<P...> {};
template <class F>
  requires requires { &F::operator(); }
struct CallParameters<F> : MemberParameters<decltype(&F::operator())> {};
template <class R, class... P>
struct CallParameters<R (*)(P...)> : KnownParameters<P...> {};

template <class F, std::size_t I>
struct ParameterAt {
  using type = void;
};
template <class F, std::size_t I>
  requires(CallParameters<F>::known && (I < CallParameters<F>::count))
struct ParameterAt<F, I> {
  using type = typename CallParameters<F>::template type<I>;
};

/// The largest index that the kernel's own type of it can hold: `int i` counts to 2^31 - 1.
template <class F>
constexpr std::size_t greatest_index() {
  using P = typename ParameterAt<F, 0>::type;
  if constexpr (std::is_integral_v<P>) {
    return static_cast<std::size_t>(std::numeric_limits<P>::max());
  } else {
    return std::numeric_limits<std::size_t>::max();
  }
}

/// The index as the kernel declares it: a std::size_t that was checked to fit becomes its `int`, all else stays.
template <class F, class First>
WEIR_KERNEL constexpr decltype(auto) as_declared(First& first) {
  using P = typename ParameterAt<F, 0>::type;
  if constexpr (std::is_same_v<std::remove_cv_t<First>, std::size_t> && std::is_integral_v<P>) {
    return static_cast<P>(first);
  } else {
    return (first);
  }
}

/// Throws invalid_value: there is nothing to call (R92).
[[noreturn]] void refuse_no_function(const char* operation, const char* object, SourceLocation where);

/// Refuses the address of no function, and wrappers of functions, such as std::function, that hold none.
template <class F>
void check_function([[maybe_unused]] const F& function, [[maybe_unused]] const char* operation,
                    [[maybe_unused]] const char* object, [[maybe_unused]] SourceLocation where) {
  if constexpr (std::is_pointer_v<F> || requires { function.operator bool(); }) {
    if (!function) refuse_no_function(operation, object, where);
  }
}

}  // namespace weir::detail
