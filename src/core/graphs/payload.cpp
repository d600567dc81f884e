// What a node owns.
#include <cstring>
#include <utility>

#include <weir/observer.hpp>

#include "core/checks.hpp"
#include "core/graphs/capture.hpp"
#include "graph_form.hpp"

namespace weir::detail {

namespace {

std::byte* aligned(std::byte* at, std::size_t alignment) {
  const auto value = reinterpret_cast<std::uintptr_t>(at);
  return reinterpret_cast<std::byte*>((value + alignment - 1) / alignment * alignment);
}

const char* kind_of_work(const Op& op) {
  if (std::holds_alternative<Launch>(op)) return "a kernel";
  return std::holds_alternative<External>(op) ? "foreign work" : "a host function";
}

}  // namespace

Payload::Payload(const Command& command) : Payload() {  // from here on the destructor runs, whatever fails
  where_ = command.where;
  uses_.assign(command.uses.begin(), command.uses.end());
  arrays_.reserve(uses_.size() + 1);
  Op op = command.op;
  if (auto* launch = std::get_if<Launch>(&op)) own_closure(*launch);
  if (auto* fill = std::get_if<Fill>(&op)) {
    bytes_ = std::make_unique<std::byte[]>(fill->layout.element_bytes);
    std::memcpy(bytes_.get(), fill->value, fill->layout.element_bytes);
    fill->value = bytes_.get();
  }
  op_ = op;  // the closure is this payload's to destroy
  running_ = {kind_of_work(op_), name_, where_};
  for (const Region& region : uses_) {
    if (region.buffer == 0) continue;
    if (Storage* storage = retain_buffer(region.buffer)) arrays_.push_back(storage);
  }
  // Last, as nothing fails from here on: the caller keeps its function until then.
  if (auto* call = std::get_if<HostCall>(&op_)) function_.reset(call->function);
  if (auto* call = std::get_if<External>(&op_)) function_.reset(call->function);
}

void Payload::own_closure(Launch& launch) {
  const Kernel& kernel = *launch.kernel;
  name_ = launch.name != nullptr ? std::string(launch.name) : std::string(kernel.name);
  if (launch.name != nullptr) launch.name = name_.c_str();
  const std::size_t alignment = kernel.closure_align > 16 ? kernel.closure_align : 16;
  bytes_ = std::make_unique<std::byte[]>(kernel.closure_bytes + alignment + 1);
  std::byte* at = aligned(bytes_.get(), alignment);
  if (kernel.copy != nullptr) {
    kernel.copy(at, launch.closure);
  } else {
    std::memcpy(at, launch.closure, kernel.closure_bytes);
  }
  launch.closure = at;
}

void Payload::give_function_back() noexcept { static_cast<void>(function_.release()); }

void Payload::take_arguments(const void* closure) {
  auto& own = std::get<Launch>(op_);
  std::memcpy(const_cast<void*>(own.closure), closure, own.kernel->closure_bytes);
}

void Payload::keep(Storage& storage) {
  arrays_.push_back(&storage);
  retain(&storage);
}

Payload::~Payload() {
  if (const auto* launch = std::get_if<Launch>(&op_); launch != nullptr && launch->kernel->destroy != nullptr) {
    launch->kernel->destroy(const_cast<void*>(launch->closure));
  }
  if (const auto* alloc = std::get_if<Alloc>(&op_)) forget_raw_memory(alloc->data);
  for (Storage* storage : arrays_) release(storage);
}

}  // namespace weir::detail
