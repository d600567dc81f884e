// Explicit kernel arguments, in(x), out(x), inout(x), and how a call binds them to a kernel. Details are for the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <weir/array.hpp>
#include <weir/kernel.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>

namespace weir {

struct BlockExtent;

namespace detail {
/// What in(), out() and inout() give for what is no array: an error was said already.
struct NoArray {};
template <class X>
concept no_array = !array_object<X> && !is_view<std::remove_cvref_t<X>> && !std::is_same_v<X, NoArray>;
}  // namespace detail

/// An array as an argument, with what the work does to it.
template <class T>
struct Argument {
  AnyView<T> view;
  detail::Storage* storage;
  Access access;
  SourceLocation where = {};
};

/// Read: the kernel gets View<const T>. Throws invalid_handle for an array that was moved from.
template <class T>
Argument<const T> in(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  detail::require(array.storage(), "weir::in", where);
  return {array.plain_view(), array.storage(), Access::read, where};
}
/// Written, every element that is used later: the kernel gets View<T>.
template <class T>
Argument<T> out(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::out needs an array that can be written");
  detail::require(array.storage(), "weir::out", where);
  return {array.plain_view(), array.storage(), Access::write, where};
}
/// Read and written: the kernel gets View<T>.
template <class T>
Argument<T> inout(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::inout needs an array that can be written");
  detail::require(array.storage(), "weir::inout", where);
  return {array.plain_view(), array.storage(), Access::read_write, where};
}
/// Updated in a way that commutes with other accumulate() uses, as atomic additions do: no order among them is needed. In
/// all else the same as inout().
template <class T>
Argument<T> accumulate(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::accumulate needs an array that can be written");
  detail::require(array.storage(), "weir::accumulate", where);
  return {array.plain_view(), array.storage(), Access::accumulate, where};
}
/// Raw views: what they point to is the caller's to keep alive and to order.
template <class T, std::size_t R>
Argument<const T> in(const View<T, R>& view, SourceLocation where = SourceLocation::current()) {
  return {AnyView<const T>(View<const T, R>(view)), nullptr, Access::read, where};
}
template <class T, std::size_t R>
Argument<T> out(const View<T, R>& view, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::out needs a view that can be written");
  return {AnyView<T>(view), nullptr, Access::write, where};
}
template <class T, std::size_t R>
Argument<T> inout(const View<T, R>& view, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::inout needs a view that can be written");
  return {AnyView<T>(view), nullptr, Access::read_write, where};
}
template <class T, std::size_t R>
Argument<T> accumulate(const View<T, R>& view, SourceLocation where = SourceLocation::current()) {
  static_assert(!std::is_const_v<T>, "weir::accumulate needs a view that can be written");
  return {AnyView<T>(view), nullptr, Access::accumulate, where};
}
template <detail::no_array X>
detail::NoArray in(const X&) {
  static_assert(!detail::no_array<X>,
                "weir::in takes a weir::Array, Slice or View: make an array of a host range, as with weir::from");
  return {};
}
template <detail::no_array X>
detail::NoArray out(const X&) {
  static_assert(!detail::no_array<X>,
                "weir::out takes a weir::Array, Slice or View: make an array, and copy it to a host range afterwards");
  return {};
}
template <detail::no_array X>
detail::NoArray inout(const X&) {
  static_assert(!detail::no_array<X>,
                "weir::inout takes a weir::Array, Slice or View: make an array of a host range, as with weir::from");
  return {};
}

template <detail::no_array X>
detail::NoArray accumulate(const X&) {
  static_assert(
      !detail::no_array<X>,
      "weir::accumulate takes a weir::Array, Slice or View: make an array of a host range, as with weir::from");
  return {};
}

namespace detail {

template <class X>
inline constexpr bool is_argument = false;
template <class T>
inline constexpr bool is_argument<Argument<T>> = true;

template <class T>
inline constexpr std::size_t index_rank = 1;
template <std::size_t R>
inline constexpr std::size_t index_rank<Index<R>> = R;
template <class T>
inline constexpr std::size_t view_rank = 0;
template <class T, std::size_t R>
inline constexpr std::size_t view_rank<View<T, R>> = R;

/// The type that an argument has inside the closure, given the parameter that receives it (void if unknown) and the rank
/// for views whose parameter does not say.
template <class A, class Parameter, std::size_t R>
struct Bound {
  using Plain = std::remove_cvref_t<A>;
  static_assert(!array_object<Plain>,
                "pass arrays to kernels as weir::in(x), weir::out(x) or weir::inout(x); a const array alone means in");
  static_assert(
      std::is_trivially_copyable_v<std::decay_t<A>>,
      "kernel arguments are copied to the device as bytes: pass trivially copyable values, and arrays as in, out "
      "or inout");
  using type = std::decay_t<A>;
};
template <class T, class Parameter, std::size_t R>
struct BoundView {
  static constexpr std::size_t rank = view_rank<Parameter> == 0 ? R : view_rank<Parameter>;
  using type = View<T, rank>;
};
template <class T, class Parameter, std::size_t R>
struct Bound<Argument<T>, Parameter, R> : BoundView<T, Parameter, R> {};
template <class A, class Parameter, std::size_t R>
  requires(array_object<std::remove_cvref_t<A>>&& std::is_const_v<std::remove_reference_t<A>>)
struct Bound<A, Parameter, R> : Bound<Argument<const typename std::remove_cvref_t<A>::element_type>, Parameter, R> {};

template <class F, std::size_t R, class Indices, class... A>
struct BindingOf;
template <class F, std::size_t R, std::size_t... I, class... A>
struct BindingOf<F, R, std::index_sequence<I...>, A...> {
  template <std::size_t J, class X>
  using bound = typename Bound<std::conditional_t<is_argument<std::remove_cvref_t<X>>, std::remove_cvref_t<X>, X>,
                               typename ParameterAt<F, J + 1>::type, R>::type;
  using closure = Closure<F, bound<I, A>...>;
  template <class First>
  static constexpr bool invocable = std::is_invocable_v<const F&, First, const bound<I, A>&...>;
};

template <class F, class... A>
constexpr std::size_t rank_of_kernel() {
  using Seq = std::index_sequence_for<A...>;
  if constexpr (CallParameters<F>::known) {
    if constexpr (CallParameters<F>::count == 0) {
      return 1;
    } else {
      return index_rank<typename ParameterAt<F, 0>::type>;
    }
  } else if constexpr (BindingOf<F, 1, Seq, A...>::template invocable<std::size_t>) {
    return 1;
  } else if constexpr (BindingOf<F, 2, Seq, A...>::template invocable<Index<2>>) {
    return 2;
  } else if constexpr (BindingOf<F, 3, Seq, A...>::template invocable<Index<3>>) {
    return 3;
  } else if constexpr (BindingOf<F, 4, Seq, A...>::template invocable<Index<4>>) {
    return 4;
  } else {
    return 1;
  }
}

/// A kernel as messages name it.
struct KernelName {
  std::string_view type;
  bool index_is_auto = false;  ///< the call operator is a template, which stands for one dimension
};
/// Checks a launch's sizes; true if there is something to run.
bool check_extent(const Shape& extent, std::size_t rank, std::uint32_t block, KernelName kernel, SourceLocation where);
/// The extent has more than the `most` elements that the type of the kernel's index can count.
[[noreturn]] void refuse_index(std::size_t extent, std::size_t most, KernelName kernel, SourceLocation where);
void check_blocks(StreamRef stream, const BlockExtent& extent, SourceLocation where);
/// Checks memory that Weir did not allocate, as far as can be seen.
void check_raw(const void* data, std::size_t count, std::size_t alignment, StreamRef stream, const char* operation,
               SourceLocation where);
/// An argument as messages name it: a constant, so that a launch that fails costs little where none does.
struct ArgumentPlace {
  std::string_view kernel;
  std::size_t number;  ///< from 1 on
  std::size_t rank;    ///< of the view that the kernel wants
};
template <class F, std::size_t number, std::size_t rank>
inline constexpr ArgumentPlace argument_place{type_name<F>(), number, rank};
[[noreturn]] void refuse_rank(const ArgumentPlace& argument, std::size_t rank, const char* operation,
                              SourceLocation where);
/// The memory of elements, strides in elements.
void describe_region(Region& region, const void* data, const Shape& shape, const std::ptrdiff_t* stride,
                     std::size_t element_bytes, BufferId buffer, Access access);
template <class T>
void describe_region(Region& region, const Argument<T>& argument) {
  const std::ptrdiff_t stride[max_rank] = {argument.view.stride(0), argument.view.stride(1), argument.view.stride(2),
                                           argument.view.stride(3)};
  describe_region(region, argument.view.data(), argument.view.shape(), stride, sizeof(T),
                  argument.storage ? argument.storage->buffer : 0, argument.access);
}

/// Turns one argument into its value in the closure, checks it, and appends its region.
template <class To, class T>
To bind_one(const Argument<T>& argument, StreamRef stream, SourceLocation where, const char* operation,
            Region*& region) {
  if (argument.storage != nullptr) {
    use(*argument.storage, stream, true, operation, where);
  } else {
    check_raw(argument.view.data(), argument.view.size(), alignof(T), stream, operation, where);
  }
  describe_region(*region++, argument);
  if constexpr (std::is_same_v<To, AnyView<T>>) {
    return argument.view;
  } else {
    return argument.view.template as<To::rank()>(where);
  }
}
/// F is the kernel's type and `number` the argument's, from 1 on.
template <class To, class F, std::size_t number, class A>
To bind_argument(A&& argument, [[maybe_unused]] StreamRef stream, [[maybe_unused]] SourceLocation where,
                 [[maybe_unused]] const char* operation, [[maybe_unused]] Region*& region) {
  using Plain = std::remove_cvref_t<A>;
  if constexpr (is_argument<Plain>) {
    if (argument.view.rank() != To::rank()) [[unlikely]] {
      refuse_rank(argument_place<F, number, To::rank()>, argument.view.rank(), operation, where);
    }
    To bound = bind_one<To>(argument, stream, where, operation, region);
    bound.set_argument(number);
    return bound;
  } else if constexpr (array_object<Plain>) {
    return bind_argument<To, F, number>(in(argument, where), stream, where, operation, region);
  } else if constexpr (is_view<Plain>) {
    using T = typename Plain::element_type;
    bind_one<Plain>(Argument<T>{AnyView<T>(argument), nullptr, std::is_const_v<T> ? Access::read : Access::read_write},
                    stream, where, operation, region);
    Plain bound = argument;
    bound.set_argument(number);
    return bound;
  } else {
    return static_cast<A&&>(argument);
  }
}

template <class A>
inline constexpr std::size_t regions_of =
    is_argument<std::remove_cvref_t<A>> || array_object<std::remove_cvref_t<A>> || is_view<std::remove_cvref_t<A>> ? 1
                                                                                                                   : 0;

/// What an argument of a host function or foreign call declares: its use, and a region.
template <class A>
void declare_use(const A& argument, StreamRef stream, SourceLocation where, const char* operation, Region*& region) {
  static_assert(is_argument<A> || array_object<A>,
                "declare what a host function or foreign call uses with weir::in(x), weir::out(x) or weir::inout(x)");
  if constexpr (is_argument<A>) {
    if (argument.storage != nullptr) use(*argument.storage, stream, false, operation, where);
    describe_region(*region++, argument);
  } else {
    declare_use(in(argument, where), stream, where, operation, region);
  }
}

/// The line of the first use that knows its own.
template <class... A>
SourceLocation line_of(const A&... uses) {
  SourceLocation where;
  const auto look = [&]<class U>(const U& use) {
    if constexpr (is_argument<U>) {
      if (!where) where = use.where;
    }
  };
  (look(uses), ...);
  return where;
}

template <class C, class Indices, class... A>
struct Binder;
template <class F, class... B, std::size_t... I, class... A>
struct Binder<Closure<F, B...>, std::index_sequence<I...>, A...> {
  template <class K>
  static Closure<F, B...> bind(K&& kernel, [[maybe_unused]] StreamRef stream, [[maybe_unused]] SourceLocation where,
                               [[maybe_unused]] const char* operation, [[maybe_unused]] Region* region,
                               A&&... arguments) {
    return Closure<F, B...>{
        static_cast<K&&>(kernel),
        {Slot<I, B>{bind_argument<B, F, I + 1>(static_cast<A&&>(arguments), stream, where, operation, region)}...}};
  }
};

template <class F>
inline constexpr bool is_host_only_kernel = false;
template <class F>
inline constexpr bool is_host_only_kernel<HostOnly<F>> = true;

template <class F>
constexpr void check_kernel() {
  static_assert(!std::is_base_of_v<StreamRef, F>,
                "the stream comes first: weir::launch(stream, n, kernel, arguments...)");
  static_assert(
      std::is_copy_constructible_v<F> || std::is_base_of_v<StreamRef, F>,
      "a kernel is copied to its device: make the functor copyable, and pass arrays as arguments, not as members");
#if defined(__CUDACC__)
  static_assert(
      std::is_trivially_copyable_v<F> || is_host_only_kernel<F> || __nv_is_extended_host_device_lambda_closure_type(F),
      "a kernel is copied to its device as bytes: capture trivially copyable values, or wrap it in "
      "weir::host_only(...) if it is for the CPU alone");
#endif
}

}  // namespace detail

/// The memory that an argument stands for: region_of(in(x)).
template <class T>
Region region_of(const Argument<T>& argument) {
  Region region;
  detail::describe_region(region, argument);
  return region;
}

}  // namespace weir
