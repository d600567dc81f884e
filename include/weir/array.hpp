// Arrays: typed memory of 1 to 4 dimensions on a device or the host, made and given back in stream order.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <weir/detail/range_concepts.hpp>
#include <weir/detail/storage.hpp>
#include <weir/memory.hpp>
#include <weir/shape.hpp>
#include <weir/stream.hpp>
#include <weir/view.hpp>

namespace weir {

/// lo..hi (hi excluded) of one dimension, every `step`-th; of any integer types. Calls that take a Range refuse negative values.
struct Range {
  constexpr Range() = default;
  template <std::integral A, std::integral B, std::integral C = std::size_t>
  constexpr Range(A first, B last, C every = 1)
      : lo(detail::to_size(first)),
        hi(detail::to_size(last)),
        step(std::cmp_less(every, 0) ? 0 : detail::to_size(every)) {}

  std::size_t lo = 0;
  std::size_t hi = 0;
  std::size_t step = 1;
};

/// A view whose rank is known at run time only: what Array::view() gives. Converts to View<T, R> of its own rank, else
/// throws wrong_shape; so do elements that are named with fewer or more indices. Not owning.
template <class T>
class AnyView {
 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  AnyView() = default;
  AnyView(T* data, const Shape& shape) : data_(data), shape_(shape) {
    std::ptrdiff_t stride = 1;
    for (std::size_t d = max_rank; d-- > 0;) {
      stride_[d] = stride;
      stride *= static_cast<std::ptrdiff_t>(shape[d]);
    }
  }
  AnyView(T* data, const Shape& shape, const std::array<std::ptrdiff_t, max_rank>& stride)
      : data_(data), shape_(shape), stride_(stride) {}
  template <std::size_t R>
  AnyView(const View<T, R>& view) : data_(view.data()) {
    std::size_t sizes[max_rank] = {};
    for (std::size_t d = 0; d < R; ++d) sizes[d] = view.size(d);
    shape_ = Shape::of(R, sizes);
    for (std::size_t d = 0; d < max_rank; ++d) stride_[d] = d < R ? view.stride(d) : 1;
  }

  T* data() const { return data_; }
  const Shape& shape() const { return shape_; }
  std::size_t rank() const { return shape_.rank(); }
  std::size_t size() const { return shape_.count(); }
  std::size_t size(std::size_t dimension) const { return shape_[dimension]; }
  std::ptrdiff_t stride(std::size_t dimension) const { return stride_[dimension]; }
  /// Whether its elements lie in one block, in rows.
  bool contiguous() const {
    std::ptrdiff_t dense = 1;
    for (std::size_t d = rank(); d-- > 0;) {
      if (shape_[d] != 1 && stride_[d] != dense) return false;
      dense *= static_cast<std::ptrdiff_t>(shape_[d]);
    }
    return true;
  }

  T& operator[](std::size_t i) const {
    if (rank() != 1) [[unlikely]]
      detail::refuse_indices(1, rank(), where_);
    check(0, i);
    return data_[static_cast<std::ptrdiff_t>(i) * stride_[0]];
  }
  template <class... I>
  T& operator()(I... i) const {
    static_assert(sizeof...(I) >= 1 && sizeof...(I) <= max_rank, "an element has 1 to 4 indices");
    if (sizeof...(I) != rank()) [[unlikely]]
      detail::refuse_indices(sizeof...(I), rank(), where_);
    std::ptrdiff_t at = 0;
    std::size_t d = 0;
    ((check(d, static_cast<std::size_t>(i)), at += static_cast<std::ptrdiff_t>(i) * stride_[d++]), ...);
    return data_[at];
  }

  /// The same with its rank in its type. Throws wrong_shape for another rank.
  template <std::size_t R>
  View<T, R> as(SourceLocation where = SourceLocation::current()) const {
    if (rank() != R) [[unlikely]]
      detail::check_rank(rank(), R, where);
    std::size_t sizes[R];
    std::ptrdiff_t strides[R];
    for (std::size_t d = 0; d < R; ++d) {
      sizes[d] = shape_[d];
      strides[d] = stride_[d];
    }
    return View<T, R>(data_, sizes, strides);
  }
  template <std::size_t R>
  operator View<T, R>() const {
    return as<R>(where_);
  }
  template <std::size_t R>
    requires(!std::is_const_v<T>)
  operator View<const T, R>() const { return as<R>(where_); }
  template <class U>
    requires(std::is_same_v<U, const T> && !std::is_const_v<T>)
  operator AnyView<U>() const { return AnyView<U>(data_, shape_, stride_).from_line(where_); }

  /// One range for each dimension, from the first; dimensions without one stay whole. Throws wrong_shape out of bounds.
  AnyView slice(std::initializer_list<Range> ranges, SourceLocation where = SourceLocation::current()) const {
    AnyView part = *this;
    std::size_t sizes[max_rank] = {shape_[0], shape_[1], shape_[2], shape_[3]};
    std::size_t d = 0;
    for (const Range& range : ranges) {
      detail::check_range(range.lo, range.hi, range.step, rank(), d, d < max_rank ? shape_[d] : 0, where);
      part.data_ += static_cast<std::ptrdiff_t>(range.lo) * stride_[d];
      sizes[d] = range.hi == range.lo ? 0 : (range.hi - range.lo - 1) / range.step + 1;
      if (sizes[d] > 1) part.stride_[d] = stride_[d] * static_cast<std::ptrdiff_t>(range.step);
      ++d;
    }
    part.shape_ = Shape::of(rank(), sizes);
    return part;
  }
  /// The dimensions in reverse order.
  AnyView transposed() const {
    AnyView turned = *this;
    std::size_t sizes[max_rank] = {};
    for (std::size_t d = 0; d < rank(); ++d) {
      sizes[d] = shape_[rank() - 1 - d];
      turned.stride_[d] = stride_[rank() - 1 - d];
    }
    turned.shape_ = Shape::of(rank(), sizes);
    return turned;
  }

  /// For the library: the user's line that errors of conversions and elements name.
  AnyView from_line(SourceLocation where) const {
    AnyView same = *this;
    same.where_ = where;
    return same;
  }

 private:
  void check([[maybe_unused]] std::size_t dimension, [[maybe_unused]] std::size_t index) const {
#if WEIR_CHECKS_INDICES
    if (index >= shape_[dimension]) [[unlikely]]
      detail::refuse_host_element(dimension, index, shape_[dimension], where_);
#endif
  }

  T* data_ = nullptr;
  Shape shape_;
  std::array<std::ptrdiff_t, max_rank> stride_ = {1, 1, 1, 1};
  SourceLocation where_;
};

/// An index with the user's line. Made implicitly, from whatever converts to std::size_t.
class ElementIndex {
 public:
  template <class I>
    requires std::is_convertible_v<I, std::size_t> ElementIndex(I i, SourceLocation w = SourceLocation::current())
        : value(static_cast<std::size_t>(i)), where(w) {}

    std::size_t value;
    SourceLocation where;
};

template <class T>
class Slice;

namespace detail {
/// The elements of calls that name none.
struct Unnamed {};
struct ArrayTag {};
template <class X>
concept array_object = std::is_base_of_v<ArrayTag, std::remove_cvref_t<X>>;
}  // namespace detail

/// What Array and Slice have in common: typed elements in counted memory.
template <class T>
class ArrayBase : public detail::ArrayTag {
  static_assert(
      !std::is_same_v<T, detail::Unnamed>,
      "name the type of the elements: weir::zeros<float>(stream, n), weir::empty<int>(stream, {rows, columns})");
  static_assert(std::is_trivially_copyable_v<T>, "weir arrays hold trivially copyable types: they are moved as bytes");
  static_assert(alignof(T) <= detail::most_alignment, "weir arrays hold types that are aligned to at most 4096 bytes");

 public:
  using element_type = T;
  using value_type = std::remove_cv_t<T>;

  /// The address; of device memory, it is for kernels and foreign libraries only.
  T* data() const { return view_.data(); }
  const Shape& shape() const { return view_.shape(); }
  std::size_t rank() const { return view_.rank(); }
  std::size_t size() const { return view_.size(); }
  std::size_t bytes() const { return size() * sizeof(T); }
  bool empty() const { return size() == 0; }
  bool contiguous() const { return view_.contiguous(); }
  MemoryKind kind() const { return storage_ ? storage_->kind : MemoryKind::device; }
  /// Where the memory is; for host memory, the device "cpu".
  Device device(SourceLocation where = SourceLocation::current()) const {
    return detail::storage_device(detail::require(storage_, "weir::Array::device", where));
  }
  /// The stream that the memory was made on and returns to.
  StreamRef stream() const { return storage_ ? storage_->home : StreamRef{}; }

  /// A name for messages and tools. It belongs to the memory, so slices have it, too.
  void set_name(std::string_view name, SourceLocation where = SourceLocation::current()) const {
    detail::check_call("weir::Array::set_name", where);
    detail::name_storage(detail::require(storage_, "weir::Array::set_name", where), name);
  }

  AnyView<T> view(SourceLocation where = SourceLocation::current()) const { return view_.from_line(where); }
  template <std::size_t R>
  View<T, R> view(SourceLocation where = SourceLocation::current()) const {
    return view_.template as<R>(where);
  }

  /// Elements lo..hi (hi excluded) of the first dimension; shares the memory and keeps it alive. Throws wrong_shape.
  template <std::integral A, std::integral B>
  Slice<T> slice(A lo, B hi, SourceLocation where = SourceLocation::current()) const {
    return slice({Range{lo, hi}}, where);
  }
  /// One range for each dimension, from the first: `image.slice({{8, 16}, {0, width, 2}})`.
  Slice<T> slice(std::initializer_list<Range> ranges, SourceLocation where = SourceLocation::current()) const {
    detail::check_call("weir::Array::slice", where);
    detail::require(storage_, "weir::Array::slice", where);
    return Slice<T>(storage_, view_.slice(ranges, where));
  }
  /// Do not compile, and say what to write.
  template <std::integral A>
  Slice<T> slice(A) const {
    static_assert(!std::is_same_v<A, A>, "a slice has an end: x.slice(lo, x.size()) for all from lo on");
  }
  template <std::integral... I>
  T& operator()(I...) const {
    static_assert(sizeof...(I) > max_rank,
                  "elements of a weir::Array on the host: x.host_view()(row, column), of host memory; in kernels views "
                  "have them");
  }
  template <class To>
    requires(!std::is_convertible_v<To&, StreamRef> && !std::is_convertible_v<To&, SourceLocation>)
  void to_host(To&&) const {
    static_assert(!std::is_same_v<To, To>,
                  "x.to_host() returns the elements: values = x.to_host(); weir::copy(values, x) writes to a range");
  }
  /// The same elements with the dimensions in reverse order.
  Slice<T> transposed(SourceLocation where = SourceLocation::current()) const {
    detail::check_call("weir::Array::transposed", where);
    detail::require(storage_, "weir::Array::transposed", where);
    return Slice<T>(storage_, view_.transposed());
  }
  /// The same elements in another shape. Throws wrong_shape if the counts differ or the memory is not contiguous.
  Slice<T> reshape(const Shape& shape, SourceLocation where = SourceLocation::current()) const {
    detail::check_call("weir::Array::reshape", where);
    detail::require(storage_, "weir::Array::reshape", where);
    detail::check_reshape(contiguous(), size(), shape, where);
    return Slice<T>(storage_, AnyView<T>(data(), shape));
  }

  /// The i-th element, in rows, of host or pinned memory. Throws wrong_memory for device memory, wrong_shape for more than
  /// one dimension that are not contiguous: there, host_view()(i, j). In checked builds (WEIR_CHECKED) throws out_of_bounds,
  /// and is told to observers as a read by the host at this moment.
  T& operator[](ElementIndex i) const {
    check_host(i.where);
    if (rank() != 1 && !contiguous()) detail::refuse_one_index(rank(), i.where);
#if WEIR_CHECKS_INDICES
    if (i.value >= size()) [[unlikely]]
      detail::refuse_host_element(0, i.value, size(), i.where);
#endif
    T& element = data()[static_cast<std::ptrdiff_t>(i.value) * (rank() == 1 ? view_.stride(0) : 1)];
#if WEIR_CHECKS_INDICES
    detail::tell_element_read(*storage_, &element, sizeof(T), i.where);
#endif
    return element;
  }
  /// For loops over contiguous host or pinned memory; of other slices throws wrong_shape.
  T* begin(SourceLocation where = SourceLocation::current()) const {
    check_host_line(where);
    return data();
  }
  T* end(SourceLocation where = SourceLocation::current()) const {
    check_host_line(where);
    return data() + size();
  }
  /// All elements of contiguous host or pinned memory; of other slices throws wrong_shape.
  std::span<T> span(SourceLocation where = SourceLocation::current()) const {
    check_host_line(where);
    return {data(), size()};
  }
  /// Its elements by as many indices as there are dimensions: `image.host_view()(row, column)`.
  AnyView<T> host_view(SourceLocation where = SourceLocation::current()) const {
    check_host(where);
    return view_.from_line(where);
  }

  /// A new array on `stream` with the same elements. Asynchronous for device memory (W7).
  auto clone(StreamRef stream, SourceLocation where = SourceLocation::current()) const;
  /// The elements, read after all work with the array that any stream has been given so far, and after all blocking
  /// streams of its device (W15): no other wait is needed. Read on the legacy stream, or on a stream of its own while a
  /// blocking stream of the device captures: another thread's capture goes on. A failure of the
  /// array's streams is thrown, and stays with them. Throws capture_unsupported on a thread that captures.
  std::vector<std::remove_cv_t<T>> to_host(SourceLocation where = SourceLocation::current()) const;
  /// The elements, read in the order of `stream`, for which the host waits; nothing else is waited for. Throws
  /// capture_unsupported if the stream captures.
  std::vector<std::remove_cv_t<T>> to_host(StreamRef stream, SourceLocation where = SourceLocation::current()) const;

  /// For the library.
  detail::Storage* storage() const { return storage_; }
  const AnyView<T>& plain_view() const { return view_; }

 protected:
  ArrayBase() = default;
  ArrayBase(detail::Storage* storage, const AnyView<T>& view) : storage_(storage), view_(view) {}

  void check_host(SourceLocation where) const {
    if (!storage_ || storage_->kind == MemoryKind::device) [[unlikely]]
      detail::refuse_host_access(storage_, where);
  }
  void check_host_line(SourceLocation where) const {
    check_host(where);
    if (!contiguous()) [[unlikely]]
      detail::refuse_stepped(rank(), where);
  }

  detail::Storage* storage_ = nullptr;
  AnyView<T> view_;
};

/// A part of an array: shares its memory and keeps it alive. Copyable; usable wherever an Array is.
template <class T>
class Slice : public ArrayBase<T> {
 public:
  Slice(detail::Storage* storage, const AnyView<T>& view) : ArrayBase<T>(storage, view) { detail::retain(storage); }
  Slice(const Slice& other) : Slice(other.storage_, other.view_) {}
  Slice(Slice&& other) noexcept
      : ArrayBase<T>(std::exchange(other.storage_, nullptr), std::exchange(other.view_, {})) {}
  Slice& operator=(Slice other) noexcept {
    std::swap(this->storage_, other.storage_);
    std::swap(this->view_, other.view_);
    return *this;
  }
  ~Slice() { detail::release(this->storage_); }
};

/// Owns elements; move-only. Its memory is given back in stream order, after all work that was given the array, on any
/// stream (C7, R95): destroying it at any time is safe and never blocks.
/// Work that uses the memory through raw views or pointers is not known to it: order that yourself.
template <class T>
class Array : public ArrayBase<T> {
 public:
  Array() = default;
  Array(const Array&) = delete;  // an array is not copied by =: x.clone(stream), std::move(x), or a reference
  Array& operator=(const Array&) = delete;  // an array is not copied by =: x.clone(stream), std::move(x)
  Array(Array&& other) noexcept
      : ArrayBase<T>(std::exchange(other.storage_, nullptr), std::exchange(other.view_, {})) {}
  Array& operator=(Array&& other) noexcept {
    Array old(std::move(*this));
    this->storage_ = std::exchange(other.storage_, nullptr);
    this->view_ = std::exchange(other.view_, {});
    return *this;
  }
  ~Array() { detail::release(this->storage_); }
  template <class A, class... B>
    requires(std::is_arithmetic_v<A> || std::is_base_of_v<StreamRef, A> || std::is_same_v<A, Device>)
  explicit Array(const A&, const B&...) {
    static_assert(!std::is_same_v<A, A>,
                  "functions make arrays: weir::zeros<float>(stream, n), weir::empty<int>(stream, {rows, columns}), "
                  "weir::from(stream, values)");
  }

  /// Gives the memory back now, in the order of `stream` (or of its own). Slices become unusable.
  /// Throws already_freed the second time, and for an array that was moved from.
  void free(StreamRef stream, SourceLocation where = SourceLocation::current()) {
    detail::free_storage(this->storage_, stream, where);
  }
  void free(SourceLocation where = SourceLocation::current()) { detail::free_storage(this->storage_, {}, where); }

  /// For the library.
  Array(detail::Storage* storage, const Shape& shape)
      : ArrayBase<T>(storage, AnyView<T>(static_cast<T*>(storage->data), shape)) {}
};

/// Where an array is made: on a stream, on a device's current stream, in pageable or in pinned memory. Made implicitly.
class Place {
 public:
  Place(StreamRef s, SourceLocation w = SourceLocation::current()) : kind(MemoryKind::device), stream(s), where(w) {}
  Place(Device device, SourceLocation w = SourceLocation::current())
      : kind(MemoryKind::device), stream(get_stream(device, w)), where(w) {}
  Place(HostMemory, SourceLocation w = SourceLocation::current()) : kind(MemoryKind::pageable), where(w) {}
  Place(PinnedMemory, SourceLocation w = SourceLocation::current()) : kind(MemoryKind::pinned), where(w) {}

  MemoryKind kind;
  StreamRef stream;
  SourceLocation where;
};

namespace detail {
template <class T>
Array<T> make_empty(const char* operation, const Place& place, const Shape& shape, PoolState* pool = nullptr) {
  return Array<T>(make_storage(operation, place.kind, place.stream, shape, sizeof(T), alignof(T), pool, place.where),
                  shape);
}
template <class T>
Array<T> make_full(const char* operation, const Place& place, const Shape& shape, const T& value) {
  Array<T> array = make_empty<T>(operation, place, shape);
  fill_new(operation, *array.storage(), place.stream, shape, &value, sizeof(T), place.where);
  return array;
}
/// The default device's current stream, for calls without a place.
Place default_place(const char* operation, SourceLocation where);
}  // namespace detail

/// An array without values. Device memory comes from the device's pool and is the stream's from here on (W5, W18): other
/// streams wait for it first. Never blocks. Throws out_of_memory, size_overflow.
template <class T = detail::Unnamed>
Array<T> empty(Place place, const Shape& shape) {
  return detail::make_empty<T>("weir::empty", place, shape);
}
/// From this pool instead of the device's.
template <class T = detail::Unnamed>
Array<T> empty(Place place, const Shape& shape, PoolRef pool) {
  return detail::make_empty<T>("weir::empty", place, shape, pool.state());
}
/// On the current stream of the default device.
template <class T = detail::Unnamed>
Array<T> empty(const Shape& shape, SourceLocation where = SourceLocation::current()) {
  return detail::make_empty<T>("weir::empty", detail::default_place("weir::empty", where), shape);
}

/// An array of equal elements, written in the stream's order (W5); at once in host memory.
template <class T>
Array<T> full(Place place, const Shape& shape, const T& value) {
  return detail::make_full<T>("weir::full", place, shape, value);
}
template <class T>
Array<T> full(const Shape& shape, const T& value, SourceLocation where = SourceLocation::current()) {
  return detail::make_full<T>("weir::full", detail::default_place("weir::full", where), shape, value);
}

/// All elements T{}.
template <class T = detail::Unnamed>
Array<T> zeros(Place place, const Shape& shape) {
  return detail::make_full<T>("weir::zeros", place, shape, T{});
}
template <class T = detail::Unnamed>
Array<T> zeros(const Shape& shape, SourceLocation where = SourceLocation::current()) {
  return detail::make_full<T>("weir::zeros", detail::default_place("weir::zeros", where), shape, T{});
}

/// The same full of ones.
template <class T = detail::Unnamed>
Array<T> ones(Place place, const Shape& shape) {
  return detail::make_full<T>("weir::ones", place, shape, T(1));
}
template <class T = detail::Unnamed>
Array<T> ones(const Shape& shape, SourceLocation where = SourceLocation::current()) {
  return detail::make_full<T>("weir::ones", detail::default_place("weir::ones", where), shape, T(1));
}

/// An array with the elements of a host range (std::vector, std::span, a C array): copied as weir::copy does, at once into
/// host memory. The range may be changed or destroyed as soon as this returns, unless it is pinned and the array is on a
/// device (R35, R36).
template <std::ranges::contiguous_range R>
auto from(Place place, const R& range);
template <std::ranges::contiguous_range R>
auto from(const R& range, SourceLocation where = SourceLocation::current());
/// The same in a shape of as many elements: `from(stream, values, {2, 3})`. Throws wrong_shape for another number.
template <std::ranges::contiguous_range R>
auto from(Place place, const R& range, const Shape& shape);
/// `from(stream, {1.0f, 2.0f})`.
template <class T>
auto from(Place place, std::initializer_list<T> values);

}  // namespace weir
