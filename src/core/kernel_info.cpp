// What a device makes of a kernel: asked of its backend.
#include <weir/kernel_info.hpp>

#include <algorithm>
#include <string>

#include "core/runtime.hpp"

namespace weir {

namespace detail {

KernelInfo kernel_info(const DeviceArg& device, const Kernel& kernel) {
  constexpr const char* operation = "weir::kernel_info";
  enter(operation, device.where);
  const DeviceState& state = *device.device.state();
  return {device.device, kernel, state.backend->kernel_facts(state.index, kernel, operation, device.where)};
}

}  // namespace detail

namespace {

void check_size(const KernelInfo& info, std::size_t threads, std::size_t shared_bytes, const char* operation,
                SourceLocation where) {
  const std::string object = "kernel '" + std::string(info.name()) + "'";
  if (threads == 0 || threads > info.max_threads) {
    throw Error(
        Errc::invalid_value, operation, object,
        std::to_string(threads) + " threads per block: 1 to " + std::to_string(info.max_threads) + " are possible",
        where);
  }
  if (shared_bytes > info.max_shared_bytes) {
    throw Error(Errc::invalid_value, operation, object,
                std::to_string(shared_bytes) + " bytes of shared memory per block: at most " +
                    std::to_string(info.max_shared_bytes) + " are possible",
                where);
  }
}

}  // namespace

std::size_t KernelInfo::blocks_per_multiprocessor(std::size_t threads, std::size_t shared_bytes,
                                                  SourceLocation where) const {
  constexpr const char* operation = "weir::KernelInfo::blocks_per_multiprocessor";
  detail::enter(operation, where);
  check_size(*this, threads, shared_bytes, operation, where);
  const detail::DeviceState& state = *device_.state();
  return state.backend->resident_blocks(state.index, *kernel_, threads, shared_bytes, operation, where);
}

double KernelInfo::occupancy(std::size_t threads, std::size_t shared_bytes, SourceLocation where) const {
  constexpr const char* operation = "weir::KernelInfo::occupancy";
  detail::enter(operation, where);
  check_size(*this, threads, shared_bytes, operation, where);
  if (threads_per_multiprocessor == 0) return 1;
  const detail::DeviceState& state = *device_.state();
  const std::size_t blocks =
      state.backend->resident_blocks(state.index, *kernel_, threads, shared_bytes, operation, where);
  // Threads take whole warps.
  const std::size_t taken = blocks * ((threads + 31) / 32 * 32);
  return std::min(1.0, static_cast<double>(taken) / static_cast<double>(threads_per_multiprocessor));
}

}  // namespace weir
