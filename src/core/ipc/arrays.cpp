// Arrays between processes: exported, and imported as foreign memory.
#include <memory>
#include <utility>

#include <weir/ipc.hpp>

#include "core/checks.hpp"
#include "core/ipc/exporter.hpp"
#include "core/ipc/exports.hpp"
#include "core/memory/foreign_memory.hpp"

namespace weir::detail {

namespace {

using ipc::Exporter;
using ipc::Message;
using ipc::Question;

[[noreturn]] void refuse_export(Errc code, const Storage& storage, const std::string& why, SourceLocation where) {
  throw Error(code, "weir::export_array", describe_storage(storage), why, where);
}

void check_exported(const Storage& storage, const Shape& shape, bool contiguous, SourceLocation where) {
  const auto refuse = [&](Errc code, const char* why) { refuse_export(code, storage, why, where); };
  if (storage.freed.load()) refuse(Errc::already_freed, "it was given back before");
  if (storage.kind != MemoryKind::device) {
    refuse(Errc::wrong_memory, "host memory is its process's own: make the array on a stream, in a shareable pool");
  }
  if (storage.foreign.release != nullptr) {
    refuse(Errc::not_supported,
           "the memory belongs to somebody else: to another process, whose handle can be passed on, or "
           "to another library");
  }
  if (storage.captured_in != 0) refuse(Errc::not_supported, "its memory is a graph's, and lives in its replays alone");
  if (shape.count() == 0) refuse(Errc::invalid_value, "it has no elements");
  if (!contiguous) refuse(Errc::wrong_shape, "its elements are not contiguous: export the array, and slice it there");
  if (storage.device->backend->memory_sharing() == nullptr) {
    refuse(Errc::not_supported, "memory of this device is not shared with other processes");
  }
}

std::string text_of(std::uint32_t code, std::uint64_t bits, std::uint64_t bytes) {
  constexpr const char* names[] = {"int", "uint", "float", nullptr, "bfloat", "complex", "bool"};
  if (code < std::size(names) && names[code] != nullptr && bits != 0) return names[code] + std::to_string(bits);
  return "objects of " + std::to_string(bytes) + " bytes";
}

/// What the exporter says of an array, checked: it is another program.
struct Opened {
  Shape shape;
  std::size_t bytes = 0;
  std::size_t begin = 0;
  SharedMemory memory;
};

/// Throws std::string.
Opened checked(const Message& answer, const SharedElements& wanted) {
  const bool same = answer.element_bytes == wanted.bytes && answer.element_type == wanted.type.code &&
                    answer.element_bits == wanted.type.bits;
  if (!same) {
    throw "its elements are " + text_of(answer.element_type, answer.element_bits, answer.element_bytes) + ", and " +
        text_of(wanted.type.code, wanted.type.bits, wanted.bytes) + " were asked for";
  }
  Opened opened;
  if (answer.rank < 1 || answer.rank > max_rank) throw std::string("the exporter says nonsense of its rank");
  std::size_t sizes[max_rank] = {1, 1, 1, 1};
  std::size_t bytes = wanted.bytes;
  for (std::size_t d = 0; d < answer.rank; ++d) {
    sizes[d] = answer.sizes[d];
    if (__builtin_mul_overflow(bytes, sizes[d], &bytes)) throw std::string("the exporter says nonsense of its shape");
  }
  if (bytes == 0 || answer.begin > answer.bytes || bytes > answer.bytes - answer.begin) {
    throw std::string("the exporter says nonsense of its memory");
  }
  opened.shape = Shape::of(answer.rank, sizes);
  opened.bytes = bytes;
  opened.begin = answer.begin;
  opened.memory.offset = answer.offset;
  opened.memory.bytes = answer.bytes;
  opened.memory.pool = answer.pool;
  opened.memory.pointer = answer.pointer;
  return opened;
}

/// Imported memory, until nobody here uses it.
struct Imported {
  std::shared_ptr<Exporter> exporter;
  std::uint64_t request = 0;
  MemorySharing* sharing = nullptr;
  int device = 0;
  void* data = nullptr;  ///< as it was mapped; null: not yet
  SharedMemory memory;

  ~Imported() {
    if (data != nullptr) sharing->unmap(device, data, memory);
    if (request != 0) exporter->close_array(request);
  }
  static void drop(void* imported) { delete static_cast<Imported*>(imported); }
};

}  // namespace

bool is_imported(const Storage& storage) { return storage.foreign.release == &Imported::drop; }

ArrayHandle export_storage(Storage* storage, void* data, const Shape& shape, bool contiguous,
                           const SharedElements& elements, SourceLocation where) {
  constexpr const char* operation = "weir::export_array";
  enter(operation, where);
  Storage& exported = require(storage, operation, where);
  check_exported(exported, shape, contiguous, where);
  // Now, so that the refusal is this call's.
  static_cast<void>(
      exported.device->backend->memory_sharing()->share(*exported.pool, allocation_of(exported), operation, where));
  const ipc::ExportedArray array{exported.buffer, data, shape, elements};
  return {handle_of(ipc::ObjectKind::array, ipc::export_object(array, operation, where))};
}

ImportedStorage import_storage(StreamRef stream, const ArrayHandle& handle, const SharedElements& wanted, bool writable,
                               SourceLocation where) {
  constexpr const char* operation = "weir::import_array";
  StreamState& state = state_of(stream, operation, where);
  const ipc::Name name = name_of(ipc::ObjectKind::array, handle.bytes, operation, where);
  const Question question{operation, ipc::object_of("array", name), where};
  const auto refuse = [&](Errc code, const std::string& why) {
    throw Error(code, operation, question.object, why, where);
  };
  if (ipc::Post::get().is_own(name.process)) refuse(Errc::invalid_value, "that is this process: use the array itself");
  MemorySharing* sharing = state.device->backend->memory_sharing();
  if (sharing == nullptr)
    refuse(Errc::not_supported, "device " + state.device->name + " takes no memory of other processes");
  if (state.recorder.load(std::memory_order_acquire) != nullptr) {
    refuse(Errc::capture_unsupported, describe(state) + " captures: import before");
  }

  auto imported = std::make_unique<Imported>();
  imported->exporter = Exporter::of(name, question);
  Message message;
  message.kind = ipc::MessageKind::open_array;
  message.object = name.object;
  const ipc::Answer answer = imported->exporter->ask(message, question);
  imported->request = answer.message.request;
  imported->sharing = sharing;
  imported->device = state.device->index;
  if (answer.message.backend_of() != state.device->backend->name()) {
    refuse(Errc::wrong_device,
           "its memory is of a device of '" + answer.message.backend_of() + "', and " + describe(state) + " is not");
  }
  Opened opened;
  try {
    opened = checked(answer.message, wanted);
  } catch (const std::string& why) {
    refuse(Errc::invalid_value, why);
  }
  imported->memory = opened.memory;
  opened.memory.file = answer.file.get();
  imported->data = sharing->map(
      imported->device, {opened.memory, writable, ipc::socket_name(name.process), question.object, operation, where});
  ForeignMemory memory{};
  memory.data = static_cast<std::byte*>(imported->data) + opened.begin;
  if (reinterpret_cast<std::uintptr_t>(memory.data) % wanted.alignment != 0) {
    refuse(Errc::misaligned, "its address is not a multiple of " + std::to_string(wanted.alignment));
  }
  memory.bytes = opened.bytes;
  memory.kind = MemoryKind::device;
  memory.device = state.device;
  memory.stream = stream;
  memory.owner = {Imported::drop, imported.get()};
  Storage* storage = adopt_storage(memory, where);
  static_cast<void>(imported.release());
  return {storage, opened.shape};
}

}  // namespace weir::detail
