// Arrays as DLPack tensors, and the order between an array's work and its consumer.
#include <algorithm>
#include <memory>
#include <vector>

#include <weir/dlpack.hpp>

#include "core/checks.hpp"
#include "core/memory/foreign_memory.hpp"
#include "core/observers.hpp"
#include "core/streams/bridge.hpp"

namespace weir {

namespace {

using detail::ExportedArray;
using detail::Storage;
using dlpack::Consumer;

constexpr const char* operation = "weir::to_dlpack";
constexpr std::int64_t no_wait = -1;
constexpr std::int64_t legacy = 1;

bool in_gpu_memory(const Storage& storage) {
  return storage.kind == MemoryKind::device && !storage.device->backend->on_host();
}

[[noreturn]] void refuse(const Storage& storage, std::int64_t number, const char* message, SourceLocation where) {
  throw Error(Errc::invalid_value, operation,
              detail::describe_storage(storage) + " for stream " + std::to_string(number), message, where);
}

void check_number(const Storage& storage, std::int64_t number, SourceLocation where) {
  if (number == no_wait) return;
  if (!in_gpu_memory(storage)) refuse(storage, number, "host memory is for no stream: pass None, or -1", where);
  if (number == 0) refuse(storage, number, "0 could mean the legacy (1) or the per-thread default stream (2)", where);
  if (number < 0) refuse(storage, number, "a stream is -1, 1, 2 or a handle", where);
}

/// Makes a foreign stream wait for these queues.
void order_foreign(Storage& storage, std::int64_t number, SourceLocation where) {
  detail::DeviceState& device = *storage.device;
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.label = "the consumer's stream on " + device.name;
  void* handle = reinterpret_cast<void*>(static_cast<std::uintptr_t>(number));
  Queue* consumer = device.backend->wrap_queue(device.index, handle, options);
  if (consumer == nullptr) refuse(storage, number, "this backend has no native streams", where);
  for (const detail::QueuePlace& user : detail::queues_of(storage)) consumer->follow(*user.queue, user.owner);
  consumer->retire();
}

void order_stream(Storage& storage, StreamRef stream, SourceLocation where) {
  const detail::StreamState& state = detail::state_of(stream, operation, where);
  const bool told = detail::watched(Watch::commands);
  std::vector<StreamId> behind;
  for (const detail::QueuePlace& user : detail::queues_of(storage)) {
    if (told && user.queue != state.real) behind.push_back(user.owner);
    if (user.device->backend != state.device->backend) {
      detail::follow_across(*state.queue, *user.queue, user.owner, *user.device, where);
    } else if (user.queue != state.real) {
      state.queue->follow(*user.queue, user.owner);
    }
  }
  if (told) detail::observe_order(stream, behind, where);
  static_cast<void>(state.queue->native());  // work that Weir does not see will be there
  if (storage.home != stream) detail::note_queue(storage, stream);
}

void order_consumer(Storage& storage, const Consumer& consumer, SourceLocation where) {
  if (consumer.stream().id() != 0) {
    order_stream(storage, consumer.stream(), where);
  } else if (consumer.number() == no_wait) {
    return;
  } else if (!in_gpu_memory(storage)) {
    for (const detail::QueuePlace& user : detail::queues_of(storage)) {
      HostWait wait{HostWait::Kind::stream, user.device->index, user.owner, 0, where, HostWait::Source::to_dlpack};
      wait.backend = user.device->backend->name();
      detail::wait_told(wait, [&] { user.queue->drain(); });
    }
  } else if (consumer.number().value_or(legacy) == legacy) {
    order_stream(storage, storage.device->legacy, where);
  } else {
    order_foreign(storage, *consumer.number(), where);
  }
}

/// One allocation for the tensor that the consumer sees, its shape, and what keeps the memory.
template <class M>
struct Export {
  M tensor{};
  std::int64_t shape[max_rank] = {};
  std::int64_t stride[max_rank] = {};
  Storage* storage = nullptr;

  static void drop(M* tensor) {
    const std::unique_ptr<Export> self(static_cast<Export*>(tensor->manager_ctx));
    detail::release(self->storage);
  }
};

template <class M>
std::unique_ptr<Export<M>> exported(const ExportedArray& array, const Consumer& consumer, SourceLocation where) {
  detail::enter(operation, where);
  Storage& storage = detail::require(array.storage, operation, where);
  if (storage.freed.load(std::memory_order_relaxed)) {
    throw Error(Errc::already_freed, operation, detail::describe_storage(storage), "it was given back before", where);
  }
  if (consumer.number()) check_number(storage, *consumer.number(), where);
  auto made = std::make_unique<Export<M>>();
  made->storage = &storage;
  for (std::size_t d = 0; d < array.shape.rank(); ++d) {
    made->shape[d] = static_cast<std::int64_t>(array.shape[d]);
    made->stride[d] = array.stride[d];
  }
  const bool gpu = in_gpu_memory(storage);
  dlpack::DLTensor& tensor = made->tensor.dl_tensor;
  tensor.data = array.shape.count() == 0 ? nullptr : array.data;
  tensor.device = {gpu ? static_cast<dlpack::DLDeviceType>(storage.device->backend->dlpack_type()) : dlpack::kDLCPU,
                   gpu ? storage.device->index : 0};
  tensor.ndim = static_cast<std::int32_t>(array.shape.rank());
  tensor.dtype = array.type;
  tensor.shape = made->shape;
  tensor.strides = made->stride;
  made->tensor.manager_ctx = made.get();
  made->tensor.deleter = Export<M>::drop;
  order_consumer(storage, consumer, where);
  detail::tell_exchange(storage.buffer, false, where);
  detail::retain(&storage);
  return made;
}

}  // namespace

namespace detail {

dlpack::DLManagedTensorVersioned* export_versioned(const ExportedArray& array, const Consumer& consumer,
                                                   SourceLocation where) {
  auto made = exported<dlpack::DLManagedTensorVersioned>(array, consumer, where);
  made->tensor.version = {dlpack::major_version, dlpack::minor_version};
  made->tensor.flags = array.read_only ? dlpack::flag_read_only : 0;
  return &made.release()->tensor;
}

dlpack::DLManagedTensor* export_unversioned(const ExportedArray& array, const Consumer& consumer,
                                            SourceLocation where) {
  if (array.read_only) {
    throw Error(Errc::not_supported, operation, "DLManagedTensor",
                "it cannot say read-only: use DLManagedTensorVersioned", where);
  }
  return &exported<dlpack::DLManagedTensor>(array, consumer, where).release()->tensor;
}

}  // namespace detail

namespace dlpack {

std::optional<std::int64_t> stream_number(StreamRef stream, SourceLocation where) {
  const detail::StreamState& state = detail::state_of(stream, "weir::dlpack::stream_number", where);
  if (state.device->backend->on_host()) return std::nullopt;
  const auto handle = reinterpret_cast<std::uintptr_t>(state.queue->native());
  return handle == 0 ? legacy : static_cast<std::int64_t>(handle);
}

}  // namespace dlpack

}  // namespace weir
