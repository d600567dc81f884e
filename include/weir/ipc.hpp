// Between processes of one host: arrays and events that one process exports and others import. Nothing is copied. On CPUs by POSIX
// shared memory, on GPUs by CUDA's interprocess pools; who may free what, and when, is in docs/ipc.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weir/array.hpp>
#include <weir/detail/dlpack_types.hpp>
#include <weir/event.hpp>
#include <weir/stream.hpp>

namespace weir {

/// Names an exported array. Plain bytes: send them to the other process by a pipe, a socket, a file. Any process of
/// the same user on this host that has them can read and write the array, so treat them as a secret.
struct ArrayHandle {
  std::array<std::byte, 64> bytes{};
  friend bool operator==(const ArrayHandle&, const ArrayHandle&) = default;
};

/// Names an exported event, in the same way.
struct EventHandle {
  std::array<std::byte, 64> bytes{};
  friend bool operator==(const EventHandle&, const EventHandle&) = default;
};

namespace detail {

struct SharedElements {
  dlpack::DLDataType type;
  std::size_t bytes;
  std::size_t alignment;
};
template <class T>
inline constexpr SharedElements shared_elements = {dlpack::data_type<std::remove_cv_t<T>>, sizeof(T), alignof(T)};

ArrayHandle export_storage(Storage* storage, void* data, const Shape& shape, bool contiguous,
                           const SharedElements& elements, SourceLocation where);
struct ImportedStorage {
  Storage* storage;
  Shape shape;
};
/// The owner of the result is the caller.
ImportedStorage import_storage(StreamRef stream, const ArrayHandle& handle, const SharedElements& wanted, bool writable,
                               SourceLocation where);

}  // namespace detail

/// A handle by which other processes import this array or contiguous slice. It serves any number of imports, as long as the array
/// lives. The array must be of a pool with PoolOptions::shareable: `weir::empty<float>(stream, n, pool)`. Memory that was
/// imported stays until the last importer has dropped it or has ended, even if the array is freed or destroyed before.
/// Waits for nothing, and orders nothing: export an event for that.
/// Throws not_supported for memory of other pools, simulated devices, captures and graphs, and for what was imported itself;
/// wrong_memory for host memory; wrong_shape for slices that are not contiguous; invalid_value for no elements;
/// already_freed; invalid_handle.
template <class T>
[[nodiscard]] ArrayHandle export_array(const ArrayBase<T>& array, SourceLocation where = SourceLocation::current()) {
  return detail::export_storage(array.storage(), const_cast<std::remove_cv_t<T>*>(array.data()), array.shape(),
                                array.contiguous(), detail::shared_elements<T>, where);
}

/// The array of another process, in place. Its home is `stream`, but any stream of the device may use it at once. Asks the exporter, which answers at once,
/// whatever it computes; waits for no stream. `T` is the element type; with a const one the array is read-only, and on a CPU
/// its pages are. The exporter keeps the memory until this array and its slices are gone and all work that was given them is done.
/// Throws exporter_gone if the exporting process has ended or does not answer; already_freed if its array is gone;
/// invalid_value for damaged handles, those of another version, of other elements, or of this process; wrong_device if
/// the memory is not of the stream's device; not_supported for simulated devices; out_of_memory; capture_unsupported if the
/// stream captures.
template <class T>
[[nodiscard]] Array<T> import_array(StreamRef stream, const ArrayHandle& handle,
                                    SourceLocation where = SourceLocation::current()) {
  const detail::ImportedStorage got =
      detail::import_storage(stream, handle, detail::shared_elements<T>, !std::is_const_v<T>, where);
  return Array<T>(got.storage, got.shape);
}
/// On the device's current stream.
template <class T>
[[nodiscard]] Array<T> import_array(Device device, const ArrayHandle& handle,
                                    SourceLocation where = SourceLocation::current()) {
  return import_array<T>(get_stream(device, where), handle, where);
}

/// A handle by which other processes wait for this event, as long as it lives. Throws invalid_value for a weir::TimedEvent: events
/// between processes take no time (R81); not_supported for events of simulated devices and imported ones; invalid_handle.
[[nodiscard]] EventHandle export_event(EventRef event, SourceLocation where = SourceLocation::current());

/// The event of another process. `stream.wait(event)` takes the exporter's last record at the moment of the call, as within a
/// process; a stream of `device` or of any other may wait. A failure of the recorded work becomes a failure of the waiting stream.
/// If the exporter ends before the work is over, the stream fails by exporter_gone: nothing waits for ever.
/// wait(), done() and synchronize() ask the exporter, and throw exporter_gone if it has ended or does not answer.
/// Only the exporter records it: Stream::record throws wrong_device. Captures refuse it: capture_isolation.
/// Throws invalid_value for damaged handles, of another version or of this process; exporter_gone; not_supported.
[[nodiscard]] Event import_event(Device device, const EventHandle& handle,
                                 SourceLocation where = SourceLocation::current());

}  // namespace weir
