// Copies and fills: between arrays, slices, views and host ranges, strided too, in stream order.
#pragma once

#include <concepts>
#include <cstring>
#include <span>
#include <type_traits>
#include <vector>

#include <weir/array.hpp>
#include <weir/detail/range_concepts.hpp>
#include <weir/kernel.hpp>
#include <weir/op.hpp>
#include <weir/stream.hpp>
#include <weir/view.hpp>

namespace weir {

namespace detail {

/// One side of a copy, without its type.
struct Endpoint {
  void* data = nullptr;
  Layout layout;
  std::size_t alignment = 1;
  Storage* storage = nullptr;  ///< null: found by address
  bool range = false;          ///< a host range: its one dimension fits any shape of as many elements
  bool no_array = false;       ///< an array that was moved from
};

template <class T>
Endpoint endpoint(const AnyView<T>& view, Storage* storage = nullptr) {
  Endpoint end;
  end.data = const_cast<std::remove_cv_t<T>*>(view.data());
  end.layout.shape = view.shape();
  for (std::size_t d = 0; d < max_rank; ++d) {
    end.layout.stride[d] = view.stride(d) * static_cast<std::ptrdiff_t>(sizeof(T));
  }
  end.layout.element_bytes = sizeof(T);
  end.alignment = alignof(T);
  end.storage = storage;
  return end;
}
template <class T>
Endpoint endpoint(const ArrayBase<T>& array) {
  Endpoint end = endpoint(array.view(), array.storage());
  end.no_array = array.storage() == nullptr;
  return end;
}
template <class T, std::size_t R>
Endpoint endpoint(const View<T, R>& view) {
  return endpoint(AnyView<T>(view));
}

template <class X>
inline constexpr bool is_any_view = false;
template <class T>
inline constexpr bool is_any_view<AnyView<T>> = true;
template <class X>
concept view_like = is_view<std::remove_cvref_t<X>> || is_any_view<std::remove_cvref_t<X>>;
template <class X>
concept host_range =
    !array_object<X> && !view_like<X> && std::ranges::contiguous_range<X> && std::ranges::sized_range<X>;
template <class X>
concept copyable_memory = array_object<X> || view_like<X> || host_range<X>;

/// A variable of the element type of an array or view, for its only element.
template <class T, class X>
concept element_for =
    (array_object<X> || view_like<X>)&&!host_range<T> && std::is_trivially_copyable_v<T> &&
    std::is_same_v<std::remove_cv_t<T>, std::remove_cv_t<typename std::remove_cvref_t<X>::element_type>>;

/// A pointer where memory is meant, and not one that is an element of the other side.
template <class P, class X>
concept lone_pointer = std::is_pointer_v<std::remove_cvref_t<P>> && !element_for<std::remove_cvref_t<P>, X>;

template <host_range R>
Endpoint endpoint(R&& range) {
  auto* data = std::ranges::data(range);
  using T = std::remove_pointer_t<decltype(data)>;
  Endpoint end = endpoint(AnyView<T>(data, Shape(std::ranges::size(range))));
  end.range = true;
  return end;
}

template <class X>
struct ElementOf {
  using type = typename std::remove_cvref_t<X>::element_type;
};
template <host_range X>
struct ElementOf<X> {
  using type = std::remove_pointer_t<decltype(std::ranges::data(std::declval<X&>()))>;
};
template <class X>
using element_of = typename ElementOf<X>::type;

/// Array::to_host. `stream` empty: behind all that use the memory.
void read_back(StreamRef stream, Storage& storage, const Endpoint& to, const Endpoint& from, SourceLocation where);
/// `stream` empty: chosen by rule W17.
void copy(StreamRef stream, const Endpoint& to, const Endpoint& from, SourceLocation where);
void fill(StreamRef stream, const Endpoint& to, const void* value, SourceLocation where);

template <class To, class From>
constexpr void check_copy_types() {
  static_assert(!std::is_const_v<element_of<To>>, "weir::copy cannot write to a const destination");
  static_assert(std::is_same_v<std::remove_cv_t<element_of<To>>, std::remove_cv_t<element_of<From>>>,
                "weir::copy needs the same element type on both sides: convert with a kernel or weir::transform");
  static_assert(std::is_trivially_copyable_v<element_of<From>>, "weir::copy moves trivially copyable types only");
}
template <class T, class V>
constexpr void check_fill_types() {
  static_assert(!std::is_const_v<T>, "weir::fill cannot write to a const destination");
  static_assert(std::is_convertible_v<const V&, T>, "weir::fill needs a value of the array's element type");
  static_assert(!(std::is_integral_v<T> && std::is_floating_point_v<V>),
                "weir::fill would cut a floating-point value off to a whole number: convert it yourself");
}

}  // namespace detail

/// Copies `from` to `to` in the order of `stream`, which may be of any device (W16, W17). Shapes must be equal; a host
/// range fits any shape of as many elements. Asynchronous within and between devices (W7, W8) and with pinned memory
/// (R35, R39); from pageable memory, up to 1 MiB is taken before the call returns, and larger copies return when done
/// (R36, R37); to pageable memory, returns when done (R38). The copy waits for `stream` only: order it after the work of
/// the source's stream yourself (W8). Throws wrong_shape, overlapping, null_view, misaligned, already_freed.
template <detail::copyable_memory To, detail::copyable_memory From>
void copy(StreamRef stream, To&& to, From&& from, SourceLocation where = SourceLocation::current()) {
  detail::check_copy_types<To, From>();
  if (stream.state() == nullptr) detail::refuse_stream("weir::copy", where);
  detail::copy(stream, detail::endpoint(to), detail::endpoint(from), where);
}
/// On the current stream of the destination's device; if the destination is host memory, of the source's device; between
/// host memories, of the default device (W17).
template <detail::copyable_memory To, detail::copyable_memory From>
void copy(To&& to, From&& from, SourceLocation where = SourceLocation::current()) {
  detail::check_copy_types<To, From>();
  detail::copy({}, detail::endpoint(to), detail::endpoint(from), where);
}

/// The only element of `from` to a variable, and the other way. The variable is pageable memory, as a host range is:
/// reading returns when done, and what is written is taken before the call returns.
template <class T, class From>
  requires(detail::element_for<T, From> && !std::is_const_v<T>)
void copy(StreamRef stream, T& to, From&& from, SourceLocation where = SourceLocation::current()) {
  copy(stream, std::span<T>(&to, 1), from, where);
}
template <class To, detail::element_for<To> T>
void copy(StreamRef stream, To&& to, const T& from, SourceLocation where = SourceLocation::current()) {
  copy(stream, to, std::span<const T>(&from, 1), where);
}
template <class T, class From>
  requires(detail::element_for<T, From> && !std::is_const_v<T>)
void copy(T& to, From&& from, SourceLocation where = SourceLocation::current()) {
  copy(std::span<T>(&to, 1), from, where);
}
template <class To, detail::element_for<To> T>
void copy(To&& to, const T& from, SourceLocation where = SourceLocation::current()) {
  copy(to, std::span<const T>(&from, 1), where);
}

/// Do not compile, and say what to write: arguments as other libraries' copies and fills take them.
template <detail::copyable_memory To, detail::copyable_memory From, std::derived_from<StreamRef> S>
void copy(To&&, From&&, const S&) {
  static_assert(!std::is_same_v<S, S>, "the stream comes first: weir::copy(stream, to, from)");
}
template <std::derived_from<StreamRef> S, class To, class From, class... Size>
  requires(detail::lone_pointer<To, From> || detail::lone_pointer<From, To>)
void copy(const S&, To&&, From&&, const Size&...) {
  static_assert(
      !std::is_same_v<S, S>,
      "a pointer does not say how many elements there are: weir::copy(stream, to, weir::View<float>(pointer, n))");
}
template <detail::copyable_memory To, class V, std::derived_from<StreamRef> S>
void fill(To&&, const V&, const S&) {
  static_assert(!std::is_same_v<S, S>, "the stream comes first: weir::fill(stream, to, value)");
}
template <std::derived_from<StreamRef> S, class T, class V>
void fill(const S&, T*, const V&) {
  static_assert(
      !std::is_same_v<S, S>,
      "a pointer does not say how many elements there are: weir::fill(stream, weir::View<float>(pointer, n), value)");
}

/// Writes `value` to every element in the order of `stream`; asynchronous for device and pinned memory (R45). The value is
/// converted as C++ does, but never from a floating-point number to a whole one, which does not compile.
template <class To, class V>
  requires(detail::copyable_memory<To> && !std::is_base_of_v<StreamRef, std::remove_cvref_t<To>>)
void fill(StreamRef stream, To&& to, const V& value, SourceLocation where = SourceLocation::current()) {
  using T = detail::element_of<To>;
  detail::check_fill_types<T, V>();
  if (stream.state() == nullptr) detail::refuse_stream("weir::fill", where);
  const T element = static_cast<T>(value);
  detail::fill(stream, detail::endpoint(to), &element, where);
}
/// On the current stream of the array's device.
template <detail::copyable_memory To, class V>
void fill(To&& to, const V& value, SourceLocation where = SourceLocation::current()) {
  using T = detail::element_of<To>;
  detail::check_fill_types<T, V>();
  const T element = static_cast<T>(value);
  detail::fill({}, detail::endpoint(to), &element, where);
}

template <class T>
auto ArrayBase<T>::clone(StreamRef stream, SourceLocation where) const {
  detail::check_call("weir::Array::clone", where);
  detail::require(storage_, "weir::Array::clone", where);
  auto twin = weir::empty<std::remove_cv_t<T>>(Place(stream, where), shape());
  detail::copy(stream, detail::endpoint(twin), detail::endpoint(*this), where);
  return twin;
}

namespace detail {

template <class T>
std::vector<std::remove_cv_t<T>> read_all(StreamRef stream, Storage& storage, const ArrayBase<T>& array,
                                          SourceLocation where) {
  if constexpr (std::is_same_v<std::remove_cv_t<T>, bool>) {
    // Its vector has no elements that a copy could write.
    const struct Values {
      bool* data;
      ~Values() { delete[] data; }
    } values{new bool[array.size()]()};
    Endpoint to = endpoint(AnyView<bool>(values.data, Shape(array.size())));
    to.range = true;
    read_back(stream, storage, to, endpoint(array), where);
    return std::vector<bool>(values.data, values.data + array.size());
  } else {
    std::vector<std::remove_cv_t<T>> values(array.size());
    read_back(stream, storage, endpoint(values), endpoint(array), where);
    return values;
  }
}

}  // namespace detail

template <class T>
std::vector<std::remove_cv_t<T>> ArrayBase<T>::to_host(SourceLocation where) const {
  detail::check_call("weir::Array::to_host", where);
  return detail::read_all({}, detail::require(storage_, "weir::Array::to_host", where), *this, where);
}
template <class T>
std::vector<std::remove_cv_t<T>> ArrayBase<T>::to_host(StreamRef stream, SourceLocation where) const {
  detail::check_call("weir::Array::to_host", where);
  if (stream.state() == nullptr) detail::refuse_stream("weir::Array::to_host", where);
  return detail::read_all(stream, detail::require(storage_, "weir::Array::to_host", where), *this, where);
}

template <std::ranges::contiguous_range R>
auto from(Place place, const R& range, const Shape& shape) {
  using T = std::ranges::range_value_t<R>;
  detail::check_elements("weir::from", "range", std::ranges::size(range), shape, place.where);
  Array<T> array = detail::make_empty<T>("weir::from", place, shape);
  if (place.kind == MemoryKind::device) {
    detail::copy(place.stream, detail::endpoint(array), detail::endpoint(range), place.where);
  } else {
    // New host memory: nobody else has it.
    if (!std::ranges::empty(range)) {
      std::memcpy(static_cast<void*>(array.data()), std::ranges::data(range), array.size() * sizeof(T));
    }
  }
  return array;
}
template <std::ranges::contiguous_range R>
auto from(Place place, const R& range) {
  return from(place, range, std::ranges::size(range));
}
template <class T>
auto from(Place place, std::initializer_list<T> values) {
  return from(place, std::span<const T>(values.begin(), values.size()));
}
template <std::ranges::contiguous_range R>
auto from(const R& range, SourceLocation where) {
  return from(detail::default_place("weir::from", where), range);
}

}  // namespace weir
