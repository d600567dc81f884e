// DLPack tensors of other libraries as slices of foreign memory.
#include <cstdint>
#include <limits>

#include <weir/dlpack.hpp>

#include "core/checks.hpp"
#include "core/memory/foreign_memory.hpp"
#include "core/observers.hpp"

namespace weir {

namespace {

using detail::DeviceState;
using detail::ForeignMemory;
using detail::ForeignOwner;
using detail::ImportedArray;
using detail::WantedElements;
using dlpack::DLDataType;
using dlpack::DLTensor;

constexpr const char* operation = "weir::from_dlpack";

[[noreturn]] void refuse(Errc code, const std::string& message, SourceLocation where) {
  throw Error(code, operation, "DLPack tensor", message, where);
}

std::string text_of(const DLDataType& type) {
  constexpr const char* names[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  std::string text = type.code < std::size(names) ? names[type.code] : "type " + std::to_string(type.code) + " of ";
  text += std::to_string(type.bits);
  return type.lanes == 1 ? text : text + "x" + std::to_string(type.lanes);
}

void check_elements(const DLTensor& tensor, const WantedElements& wanted, SourceLocation where) {
  if (tensor.dtype == wanted.type) return;
  refuse(Errc::invalid_value,
         "its elements are " + text_of(tensor.dtype) + ", and " + text_of(wanted.type) + " was asked for", where);
}

Shape shape_of(const DLTensor& tensor, SourceLocation where) {
  if (tensor.ndim < 0 || tensor.ndim > static_cast<std::int32_t>(max_rank)) {
    refuse(Errc::wrong_shape, "it has " + std::to_string(tensor.ndim) + " dimensions; an array has 1 to 4", where);
  }
  if (tensor.ndim == 0) return Shape(1);
  std::size_t sizes[max_rank] = {};
  for (std::int32_t d = 0; d < tensor.ndim; ++d) sizes[d] = static_cast<std::size_t>(tensor.shape[d]);
  return Shape::of(static_cast<std::size_t>(tensor.ndim), sizes);
}

/// In elements. Without strides in the tensor: dense and row-major.
std::array<std::ptrdiff_t, max_rank> strides_of(const DLTensor& tensor, const Shape& shape, bool writable,
                                                SourceLocation where) {
  std::array<std::ptrdiff_t, max_rank> stride{};
  std::ptrdiff_t dense = 1;
  for (std::size_t d = max_rank; d-- > 0;) {
    stride[d] = dense;
    dense *= static_cast<std::ptrdiff_t>(shape[d]);
  }
  if (tensor.strides == nullptr || tensor.ndim == 0) return stride;
  for (std::size_t d = 0; d < shape.rank(); ++d) {
    if (shape[d] <= 1) continue;
    stride[d] = static_cast<std::ptrdiff_t>(tensor.strides[d]);
    if (stride[d] < 0) refuse(Errc::not_supported, "it has a negative stride: copy it first", where);
    if (stride[d] == 0 && writable) {
      refuse(Errc::not_supported, "its elements share memory (stride 0): take them as const, or copy it first", where);
    }
  }
  return stride;
}

/// Bytes from the first element to the end of the last one.
std::size_t extent(const Shape& shape, const std::array<std::ptrdiff_t, max_rank>& stride, std::size_t element) {
  if (shape.count() == 0) return 0;
  std::size_t last = 0;
  for (std::size_t d = 0; d < shape.rank(); ++d) last += (shape[d] - 1) * static_cast<std::size_t>(stride[d]);
  return (last + 1) * element;
}

DeviceState& device_of(const dlpack::DLDevice& from, SourceLocation where) {
  std::string why = "no backend of this build has such devices";
  for (Backend* backend : backends()) {
    if (backend->dlpack_type() == from.device_type) why = backend->why_absent();
  }
  for (DeviceState* device : detail::Runtime::get().devices()) {
    if (device->backend->dlpack_type() == from.device_type && device->index == from.device_id) return *device;
  }
  refuse(Errc::unknown_device,
         "it is on cuda:" + std::to_string(from.device_id) + (why.empty() ? ", which is not here" : ": " + why), where);
}

/// Makes it device memory of that stream, or of the device's current one.
void give_to_stream(ForeignMemory& memory, DeviceState& device, StreamRef stream, SourceLocation where) {
  if (stream.id() == 0) stream = get_stream(Device(&device));
  const detail::StreamState& state = detail::state_of(stream, operation, where);
  if (state.device != &device) {
    throw Error(Errc::wrong_device, operation, detail::describe(state), "the tensor is on " + device.name, where);
  }
  memory.kind = MemoryKind::device;
  memory.device = &device;
  memory.stream = stream;
}

void place(ForeignMemory& memory, const dlpack::DLDevice& from, StreamRef stream, SourceLocation where) {
  memory.device = &detail::Runtime::get().host();
  DeviceState* asked = stream.id() == 0 ? nullptr : detail::state_of(stream, operation, where).device;
  const bool for_host_device = asked != nullptr && asked->backend->on_host();
  switch (from.device_type) {
    case dlpack::kDLCPU:
      memory.kind = MemoryKind::pageable;
      if (for_host_device) give_to_stream(memory, *asked, stream, where);
      return;
    case dlpack::kDLCUDAHost: memory.kind = MemoryKind::pinned; return;
    case dlpack::kDLCUDA: give_to_stream(memory, device_of(from, where), stream, where); return;
  }
  refuse(Errc::not_supported,
         "it is on a device of DLPack's type " + std::to_string(static_cast<int>(from.device_type)) +
             "; Weir takes host (1), CUDA (2) and pinned memory (3)",
         where);
}

ImportedArray import_tensor(const DLTensor& tensor, const WantedElements& wanted, StreamRef stream,
                            const ForeignOwner& owner, SourceLocation where) {
  check_elements(tensor, wanted, where);
  ImportedArray got{};
  got.shape = shape_of(tensor, where);
  detail::checked_bytes(got.shape, wanted.bytes, operation, where);
  got.stride = strides_of(tensor, got.shape, wanted.writable, where);
  if (tensor.data != nullptr) got.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  if (tensor.data == nullptr && got.shape.count() != 0)
    refuse(Errc::null_view, "it has elements, but no memory", where);
  if (reinterpret_cast<std::uintptr_t>(got.data) % wanted.alignment != 0) {
    refuse(Errc::misaligned, "its address is not a multiple of " + std::to_string(wanted.alignment), where);
  }
  ForeignMemory memory{};
  memory.data = got.data;
  memory.bytes = extent(got.shape, got.stride, wanted.bytes);
  memory.owner = owner;
  place(memory, tensor.device, stream, where);
  got.storage = detail::adopt_storage(memory, where);
  detail::tell_exchange(got.storage->buffer, true, where);
  return got;
}

template <class M>
ForeignOwner owner_of(M* tensor) {
  return {[](void* context) {
            M* self = static_cast<M*>(context);
            if (self->deleter != nullptr) self->deleter(self);
          },
          tensor};
}

template <class M>
M& check_given(M* tensor, SourceLocation where) {
  detail::enter(operation, where);
  if (tensor == nullptr) refuse(Errc::invalid_value, "it is null", where);
  return *tensor;
}

}  // namespace

namespace detail {

ImportedArray import_versioned(dlpack::DLManagedTensorVersioned* tensor, const WantedElements& wanted, StreamRef stream,
                               SourceLocation where) {
  check_given(tensor, where);
  if (tensor->version.major != dlpack::major_version) {
    refuse(Errc::invalid_value,
           "its DLPack version is " + std::to_string(tensor->version.major) + ", and Weir knows " +
               std::to_string(dlpack::major_version) + ": call its deleter, and nothing else",
           where);
  }
  if ((tensor->flags & dlpack::flag_read_only) != 0 && wanted.writable) {
    refuse(Errc::wrong_memory, "it is read-only: import it with const elements", where);
  }
  return import_tensor(tensor->dl_tensor, wanted, stream, owner_of(tensor), where);
}

ImportedArray import_unversioned(dlpack::DLManagedTensor* tensor, const WantedElements& wanted, StreamRef stream,
                                 SourceLocation where) {
  check_given(tensor, where);
  return import_tensor(tensor->dl_tensor, wanted, stream, owner_of(tensor), where);
}

}  // namespace detail

}  // namespace weir
