// Kernels: the hot path is one call of the driver's, with nothing allocated and nothing asked.
#include <algorithm>
#include <bit>
#include <limits>

#include <weir/kernel.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_queue.hpp"

namespace weir::cuda {

namespace {

constexpr std::size_t most_grid_x = std::numeric_limits<std::int32_t>::max();
constexpr unsigned warp = 32;

const detail::DeviceCode* code_of(const Kernel& kernel) {
  return static_cast<const detail::DeviceCode*>(kernel.device_code);
}

std::string quoted(std::string_view name) { return " of kernel '" + std::string(name) + "'"; }

/// Division by `size` as a multiplication and a shift, right for numbers below 2^31.
void set_divisor(detail::DeviceExtent& extent, std::size_t d, std::uint64_t size) {
  extent.size[d] = size;
  if (extent.narrow == 0 || size == 0) return;
  const auto shift = static_cast<std::uint32_t>(std::bit_width(size - 1));
  extent.shift[d] = shift;
  extent.factor[d] =
      static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - size)) / size + 1);
}

detail::DeviceExtent device_extent(const Shape& shape) {
  detail::DeviceExtent extent{};
  extent.count = shape.count();
  extent.narrow = extent.count < (std::uint64_t{1} << 31) ? 1 : 0;
  for (std::size_t d = 0; d < max_rank; ++d) set_divisor(extent, d, shape[d]);
  return extent;
}

/// Threads of a block: as asked or chosen, but no more than there are elements.
unsigned threads_for(const LoadedCode& code, std::uint32_t asked, std::size_t count) {
  if (asked != 0) return std::min<unsigned>(asked, code.most_threads);
  if (count >= code.block) return code.block;
  return static_cast<unsigned>((count + warp - 1) / warp * warp);
}

}  // namespace

void CudaQueue::launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                       const detail::LaunchSite& site) {
  const detail::DeviceCode* code = code_of(kernel);
  const cudaStream_t stream = stream_.load(std::memory_order_acquire);
  const LoadedCode* loaded = code != nullptr && stream != nullptr ? device_.known(*code) : nullptr;
  if (loaded == nullptr || failures_.in_doubt() || (of_current_device_ && several_devices) || size > most_grid_x)
      [[unlikely]] {
    launch_slowly(kernel, closure, size, site);
    return;
  }
  used_.store(true, std::memory_order_relaxed);
  const unsigned threads = threads_for(*loaded, 0, size);
  const unsigned blocks = (static_cast<unsigned>(size) + threads - 1) / threads;
  std::uint64_t count = size;
  detail::DeviceGuard unguarded{nullptr, 0};
  void* arguments[] = {const_cast<void*>(closure), &count, &unguarded};
  const CUresult answer = driver().launch_kernel(loaded->function.load(std::memory_order_relaxed), blocks, 1, 1,
                                                 threads, 1, 1, 0, stream, arguments, nullptr);
  if (answer != CUDA_SUCCESS) [[unlikely]] {
    launch_slowly(kernel, closure, size, site);
  }
}

void CudaQueue::launch_slowly(const Kernel& kernel, const void* closure, std::size_t size,
                              const detail::LaunchSite& site) {
  Command command;
  command.where = site.where;
  command.op = Launch{&kernel, closure, Shape(size), 0, 0, 0, nullptr};
  submit_launch(command, std::get<Launch>(command.op));
}

/// One launch with the device current: where the driver has no context on this thread yet, or needs the right one.
void CudaQueue::launch_function(const LoadedCode& code, std::size_t blocks, unsigned threads, std::size_t shared_bytes,
                                void** arguments, std::string_view name, const char* operation, SourceLocation where) {
  const auto x = static_cast<unsigned>(std::min(blocks, most_grid_x));
  const auto y = static_cast<unsigned>((blocks + x - 1) / x);
  const cudaStream_t queue = stream(where);
  int previous = 0;
  check(cudaGetDevice(&previous), operation, label_, where);
  check(cudaSetDevice(device_.index()), operation, label_, where);
  const CUresult answer = driver().launch_kernel(code.function.load(std::memory_order_relaxed), x, y, 1, threads, 1, 1,
                                                 static_cast<unsigned>(shared_bytes), queue, arguments, nullptr);
  if (previous != device_.index()) static_cast<void>(cudaSetDevice(previous));
  check(static_cast<cudaError_t>(answer), operation, label_ + quoted(name), where);
}

void CudaQueue::submit_launch(const Command& command, const Launch& launch) {
  if (launch.kernel->device_code != nullptr && code_of(*launch.kernel)->kind == detail::DeviceCode::Kind::global) {
    launch_global(command, launch);
    return;
  }
  const char* operation = launch.kernel->rank == 0 ? "weir::launch_blocks" : "weir::launch";
  const LoadedCode& code = device_.code_of(*launch.kernel, operation, label_, command.where);
  if (failures_.skips_all()) return;
  detail::DeviceGuard guard{nullptr, 0};
  if (failures_.in_doubt()) guard = failures_.guard();
  const std::string_view name = launch.name != nullptr ? std::string_view(launch.name) : launch.kernel->name;
  const std::size_t count = launch.extent.count();
  void* closure = const_cast<void*>(launch.closure);
  if (launch.kernel->rank == 0) {
    std::uint64_t blocks = count;
    void* arguments[] = {closure, &blocks, &guard};
    launch_function(code, blocks, launch.threads, launch.shared_bytes, arguments, name, operation, command.where);
    return;
  }
  const unsigned threads = threads_for(code, launch.block, count);
  const std::size_t blocks = (count + threads - 1) / threads;
  if (launch.kernel->rank == 1) {
    std::uint64_t elements = count;
    void* arguments[] = {closure, &elements, &guard};
    launch_function(code, blocks, threads, 0, arguments, name, operation, command.where);
  } else {
    detail::DeviceExtent extent = device_extent(launch.extent);
    void* arguments[] = {closure, &extent, &guard};
    launch_function(code, blocks, threads, 0, arguments, name, operation, command.where);
  }
}

void CudaQueue::launch_global(const Command& command, const Launch& launch) {
  constexpr const char* operation = "weir::cuda::launch";
  const auto& call = *static_cast<const detail::GlobalCall*>(launch.closure);
  const cudaStream_t queue = stream(command.where);
  if (failures_.skips_all()) return;
  if (call.declined != nullptr && failures_.in_doubt()) {
    *call.declined = true;
    return;
  }
  int previous = 0;
  check(cudaGetDevice(&previous), operation, label_, command.where);
  if (previous != device_.index()) check(cudaSetDevice(device_.index()), operation, label_, command.where);
  const int answer = call.launch(call, queue);
  if (previous != device_.index()) static_cast<void>(cudaSetDevice(previous));
  check(static_cast<cudaError_t>(answer), operation, label_, command.where);
}

}  // namespace weir::cuda
