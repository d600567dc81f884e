// The list of all device code in the process, filled by static initialisation of the files that nvcc compiled; and calls
// in the driver's own form.
#include <new>

#include <weir/detail/device_code.hpp>
#include <weir/launch.hpp>

#include "backend.hpp"
#include "core/runtime.hpp"

namespace weir::detail {

namespace {

constinit std::atomic<DeviceCode*> first{nullptr};

int load_nothing(void** function) {
  *function = nullptr;
  return 0;
}
void refuse_on_host(const void*, const BlockRange&) {
  throw Error(Errc::not_supported, "weir::cuda::launch", "__global__ function", "it runs on GPUs only", {});
}

void copy_call(void* to, const void* from) {
  auto call = *static_cast<const GlobalCall*>(from);
  call.declined = nullptr;  // whoever asked has been told
  call.arguments = call.copy(call.arguments);
  new (to) GlobalCall(call);
}
void destroy_call(void* closure) noexcept {
  const auto& call = *static_cast<GlobalCall*>(closure);
  call.forget(call.arguments);
}

/// The kernel of all calls of the driver's own form.
const Kernel& global_kernel() {
  static DeviceCode code{DeviceCode::Kind::global, &load_nothing};
  static const Kernel kernel{
      "__global__ function", 0,    0, sizeof(GlobalCall), alignof(GlobalCall), nullptr, &refuse_on_host, &copy_call,
      &destroy_call,         &code};
  return kernel;
}

}  // namespace

DeviceCode::DeviceCode(Kind k, int (*l)(void**), bool (*d)(const void*)) : kind(k), dense(d), load(l) {
  next = first.load(std::memory_order_relaxed);
  while (!first.compare_exchange_weak(next, this, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

bool decline(const Launch& launch) {
  if (launch.kernel != &global_kernel()) return false;
  bool* declined = static_cast<const GlobalCall*>(launch.closure)->declined;
  if (declined != nullptr) *declined = true;
  return declined != nullptr;
}

DeviceCode* first_device_code() noexcept { return first.load(std::memory_order_acquire); }

void submit_global(StreamRef stream, const GlobalCall& call, std::span<const Region> uses, const char* name,
                   const char* operation, SourceLocation where) {
  const StreamState& state = state_of(stream, operation, where);
  if (!state.device->backend->runs_global_functions()) {
    throw Error(Errc::not_supported, operation, describe(state), "__global__ functions run on GPUs only", where);
  }
  Command command;
  command.where = where;
  command.uses = uses;
  command.op = Launch{&global_kernel(), &call, Shape(1), 0, 1, 0, name};
  submit(stream, command, operation);
}

}  // namespace weir::detail
