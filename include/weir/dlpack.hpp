// Arrays to and from other libraries by DLPack: PyTorch, CuPy, JAX, NumPy and whatever else speaks it. Nothing is copied.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/detail/arguments.hpp>
#include <weir/detail/dlpack_types.hpp>
#include <weir/stream.hpp>

namespace weir {

namespace dlpack {

/// The `stream` of Python's `__dlpack__(stream=...)`: where the consumer will use the memory. It is made to wait for all
/// work that was given the array so far; the host does not wait, but for memory that the host reads.
class Consumer {
 public:
  /// None: CUDA's legacy default stream for memory of a GPU. For host memory, and for that of a CPU device: the host, so
  /// that the call returns when the array's work is done.
  Consumer() = default;
  Consumer(std::nullopt_t) {}
  /// As Python gives it: 1 the legacy default stream, 2 the per-thread default stream, -1 no waiting at all, else a
  /// cudaStream_t. 0 is refused, as the array API does: it could mean 1 or 2.
  Consumer(std::int64_t number) : number_(number) {}
  /// A stream of Weir, on any backend.
  Consumer(StreamRef stream) : stream_(stream) {}

  std::optional<std::int64_t> number() const { return number_; }
  StreamRef stream() const { return stream_; }

 private:
  std::optional<std::int64_t> number_;
  StreamRef stream_;
};

/// What to pass as `stream` to another library's `__dlpack__` so that its array is safe to use on `stream`: the native
/// handle, 1 for the legacy stream; nothing (None) for a stream of a CPU.
std::optional<std::int64_t> stream_number(StreamRef stream, SourceLocation where = SourceLocation::current());

}  // namespace dlpack

namespace detail {

struct ExportedArray {
  Storage* storage;
  void* data;
  Shape shape;
  std::ptrdiff_t stride[max_rank];
  dlpack::DLDataType type;
  bool read_only;
};
dlpack::DLManagedTensorVersioned* export_versioned(const ExportedArray& array, const dlpack::Consumer& consumer,
                                                   SourceLocation where);
dlpack::DLManagedTensor* export_unversioned(const ExportedArray& array, const dlpack::Consumer& consumer,
                                            SourceLocation where);

struct WantedElements {
  dlpack::DLDataType type;
  std::size_t bytes;
  std::size_t alignment;
  bool writable;
};
struct ImportedArray {
  Storage* storage;
  void* data;
  Shape shape;
  std::array<std::ptrdiff_t, max_rank> stride;
};
/// The owner of the result is the caller; `tensor` is taken over if they return.
ImportedArray import_versioned(dlpack::DLManagedTensorVersioned* tensor, const WantedElements& wanted, StreamRef stream,
                               SourceLocation where);
ImportedArray import_unversioned(dlpack::DLManagedTensor* tensor, const WantedElements& wanted, StreamRef stream,
                                 SourceLocation where);

template <class M, class T>
M* export_view(Storage* storage, const AnyView<T>& view, bool read_only, const dlpack::Consumer& consumer,
               SourceLocation where) {
  constexpr dlpack::DLDataType type = dlpack::data_type<std::remove_cv_t<T>>;
  static_assert(type.bits != 0,
                "DLPack has no such element type, or weir::dlpack::data_type is not specialised for it");
  ExportedArray array{storage, const_cast<std::remove_cv_t<T>*>(view.data()), view.shape(), {}, type, read_only};
  for (std::size_t d = 0; d < max_rank; ++d) array.stride[d] = view.stride(d);
  if constexpr (dlpack::managed_versioned<M>) {
    return reinterpret_cast<M*>(export_versioned(array, consumer, where));
  } else {
    return reinterpret_cast<M*>(export_unversioned(array, consumer, where));
  }
}

}  // namespace detail

/// A DLPack tensor of an array or slice, for another library to use; its deleter ends that, from any thread. The memory
/// lives until then, whatever becomes of the array. `M` is DLManagedTensorVersioned (the default) or DLManagedTensor, of
/// weir::dlpack or of <dlpack/dlpack.h>. An array of const elements, or in(array), is exported read-only.
///
/// Before the deleter is called, the consumer's work must be done, or be in the stream that it named here as None, 1 or a
/// weir::Stream: for these Weir keeps the memory until the stream is done. For others it cannot: their handles may be gone.
///
/// Pinned memory is exported as host memory, which every consumer takes. Throws invalid_value for a consumer that makes no
/// sense for the memory, invalid_handle, already_freed, and not_supported for DLManagedTensor read-only: it cannot say so.
template <dlpack::managed M = dlpack::DLManagedTensorVersioned, class T>
[[nodiscard]] M* to_dlpack(const ArrayBase<T>& array, const dlpack::Consumer& consumer = {},
                           SourceLocation where = SourceLocation::current()) {
  return detail::export_view<M>(array.storage(), array.view(), std::is_const_v<T>, consumer, where);
}
template <dlpack::managed M = dlpack::DLManagedTensorVersioned, class T>
[[nodiscard]] M* to_dlpack(const Argument<T>& array, const dlpack::Consumer& consumer = {},
                           SourceLocation where = SourceLocation::current()) {
  return detail::export_view<M>(array.storage, array.view, array.access == Access::read, consumer, where);
}

/// An array of another library, used in place; its deleter is called once the last slice of it is gone and all work that
/// was given it is done: never inside a host function, and without making anybody wait.
///
/// Memory of a GPU belongs to `stream`, which must be the one that the producer was told (stream_number(stream)). Without a
/// stream: the current stream of that device. Host memory is ready when the producer hands it over; with a stream of a CPU
/// device it becomes memory of that device, which its kernels reach, else it is pageable (or pinned) host memory.
///
/// `T` is the element type; read-only tensors need a const one. Throws, and leaves the tensor to the caller: invalid_value
/// for another element type or DLPack version, wrong_memory for a read-only tensor and T not const, wrong_shape for more
/// than 4 dimensions, not_supported for other kinds of devices and for strides that Weir's arrays do not have (negative, or
/// 0 with T not const), wrong_device for a stream of another device, unknown_device, misaligned, null_view.
template <class T, dlpack::managed M>
[[nodiscard]] Slice<T> from_dlpack(M* tensor, StreamRef stream, SourceLocation where = SourceLocation::current()) {
  using Element = std::remove_cv_t<T>;
  constexpr dlpack::DLDataType type = dlpack::data_type<Element>;
  static_assert(type.bits != 0,
                "DLPack has no such element type, or weir::dlpack::data_type is not specialised for it");
  const detail::WantedElements wanted{type, sizeof(Element), alignof(Element), !std::is_const_v<T>};
  const detail::ImportedArray got = [&] {
    if constexpr (dlpack::managed_versioned<M>) {
      return detail::import_versioned(reinterpret_cast<dlpack::DLManagedTensorVersioned*>(tensor), wanted, stream,
                                      where);
    } else {
      return detail::import_unversioned(reinterpret_cast<dlpack::DLManagedTensor*>(tensor), wanted, stream, where);
    }
  }();
  Slice<T> slice(got.storage, AnyView<T>(static_cast<T*>(got.data), got.shape, got.stride));
  detail::release(got.storage);  // the slice is its owner now
  return slice;
}
template <class T, dlpack::managed M>
[[nodiscard]] Slice<T> from_dlpack(M* tensor, SourceLocation where = SourceLocation::current()) {
  return from_dlpack<T>(tensor, StreamRef{}, where);
}

}  // namespace weir
