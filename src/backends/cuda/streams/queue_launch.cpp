// Kernels: the hot path is one call of the driver's, with nothing allocated and nothing asked.
#include <algorithm>
#include <bit>
#include <limits>

#include <weir/kernel.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "backends/cuda/streams/prepared_launch.hpp"
#include "backends/cuda/streams/room.hpp"

namespace weir::cuda {

namespace {

constexpr std::size_t most_grid_x = std::numeric_limits<std::int32_t>::max();
constexpr unsigned warp = 32;

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

/// Elements below that are computed by blocks that note no times, in a grid of so many blocks (detail::DeviceCount).
std::uint64_t unnoted_elements(unsigned blocks, unsigned threads) {
  constexpr unsigned noting = 1 + detail::ending_blocks;
  return blocks > noting ? std::uint64_t{blocks - noting} * threads : 0;
}

}  // namespace

void CudaQueue::launch(StreamId, const Kernel& kernel, const void* closure, std::size_t size,
                       const detail::LaunchSite& site) {
  const LegacyWork legacy(*this);
  const detail::DeviceCode* code = code_of(kernel);
  const cudaStream_t stream = stream_.load(std::memory_order_acquire);
  const LoadedCode* loaded = code != nullptr && stream != nullptr ? device_.known(*code) : nullptr;
  if (loaded == nullptr || failures().in_doubt() || means_another_device() || size > most_grid_x) [[unlikely]] {
    launch_slowly(kernel, closure, size, site);
    return;
  }
  used_.store(Used::yes, std::memory_order_relaxed);
  const unsigned threads = threads_for(*loaded, 0, size);
  const unsigned blocks = (static_cast<unsigned>(size) + threads - 1) / threads;
  detail::DeviceGuard unguarded{nullptr, 0};
  detail::DeviceCount count{is_dense(*code, closure) ? size : 0, size, 0, 0};
  void* arguments[] = {&count, const_cast<void*>(closure), &unguarded};
  const RoomCall room;
  const CUresult answer = driver().launch_kernel(loaded->function.load(std::memory_order_relaxed), blocks, 1, 1,
                                                 threads, 1, 1, 0, stream, arguments, nullptr);
  if (answer != CUDA_SUCCESS) [[unlikely]] {
    launch_slowly(kernel, closure, size, site);
  }
}

bool CudaQueue::launch_noted(const Command& command, const Launch& launch) {
  const std::size_t size = launch.extent.rank() == 1 ? launch.extent[0] : 0;
  if (command.id == 0 || launch.kernel->rank != 1 || size == 0 || size > most_grid_x || capture_ != nullptr)
    return false;
  const detail::DeviceCode* code = code_of(*launch.kernel);
  const cudaStream_t stream = stream_.load(std::memory_order_acquire);
  const LoadedCode* loaded = code != nullptr && code->kind == detail::DeviceCode::Kind::line && stream != nullptr
                                 ? device_.known(*code)
                                 : nullptr;
  if (loaded == nullptr || failures().in_doubt() || means_another_device()) return false;
  TimedPlace place = times_.add_kernel(*this);
  if (!place) return false;
  const LegacyWork legacy(*this);
  const RoomCall room;
  used_.store(Used::yes, std::memory_order_relaxed);
  TimedCommand& timed = place.command();
  timed.submitted = command.called();
  timed.id = command.id;
  timed.stream = owner();
  timed.how = TimedCommand::How::kernel;
  const unsigned threads = threads_for(*loaded, launch.block, size);
  const unsigned blocks = (static_cast<unsigned>(size) + threads - 1) / threads;
  detail::DeviceGuard noting{nullptr, 0, place.kernel()};
  const bool dense = is_dense(*code, launch.closure);
  detail::DeviceCount count{dense ? unnoted_elements(blocks, threads) : 0, size, 0, dense && blocks == 1};
  count.careful = count.plain != 0 ? 1 : 0;
  void* arguments[] = {&count, const_cast<void*>(launch.closure), &noting};
  const CUresult answer = driver().launch_kernel(loaded->function.load(std::memory_order_relaxed), blocks, 1, 1,
                                                 threads, 1, 1, 0, stream, arguments, nullptr);
  timed.refused = answer != CUDA_SUCCESS;
  if (const std::shared_ptr<TimedBatch> full = place.settle()) close_times(*full, command.where);
  return answer == CUDA_SUCCESS;
}

void CudaQueue::launch_slowly(const Kernel& kernel, const void* closure, std::size_t size,
                              const detail::LaunchSite& site) {
  Command command;
  command.where = site.where;
  command.op = Launch{&kernel, closure, Shape(size), 0, 0, 0, nullptr};
  submit_launch(command, std::get<Launch>(command.op), nullptr);
}

PreparedLaunch::PreparedLaunch(const LoadedCode& code, const Launch& launch, const detail::DeviceGuard& doubt)
    : function(code.function.load(std::memory_order_relaxed)), guard(doubt), kernel_(*launch.kernel) {
  const std::size_t elements = launch.extent.count();
  std::size_t blocks = elements;
  if (launch.kernel->rank == 0) {
    threads = launch.threads;
    sizes = detail::block_sizes(launch.extent, launch.thread_shape);
    shared_bytes = static_cast<unsigned>(launch.shared_bytes);
  } else {
    threads = threads_for(code, launch.block, elements);
    blocks = (elements + threads - 1) / threads;
  }
  if (launch.kernel->rank > 1) extent = device_extent(launch.extent);
  count.count = elements;
  grid_x = static_cast<unsigned>(std::min(blocks, most_grid_x));
  grid_y = grid_x == 0 ? 0 : static_cast<unsigned>((blocks + grid_x - 1) / grid_x);
  arguments[0] = launch.kernel->rank > 1    ? static_cast<void*>(&extent)
                 : launch.kernel->rank == 0 ? static_cast<void*>(&sizes)
                                            : &count;
  arguments[2] = &guard;
  take(launch.closure);
}

void PreparedLaunch::take(const void* closure) {
  arguments[1] = const_cast<void*>(closure);
  if (kernel_.rank == 0) return;
  const bool free = grid_y == 1 && guard.failed_at == nullptr && is_dense(*code_of(kernel_), closure);
  count.plain = free ? plain_elements() : 0;
  count.careful = guard.times != nullptr && count.plain != 0 ? 1 : 0;
  count.alone = free && guard.times != nullptr && grid_x == 1 ? 1 : 0;
  extent.plain = extent.narrow != 0 ? count.plain : 0;
  extent.careful = extent.plain != 0 ? count.careful : 0;
  extent.alone = count.alone;
}

std::uint64_t PreparedLaunch::plain_elements() const {
  return guard.times == nullptr ? count.count : unnoted_elements(grid_x, threads);
}

void CudaQueue::submit_launch(const Command& command, const Launch& launch, detail::KernelTimes* times) {
  if (is_global(*launch.kernel)) {
    launch_global(command, launch);
    return;
  }
  const char* operation = launch.kernel->rank == 0 ? "weir::launch_blocks" : "weir::launch";
  const LoadedCode& code = device_.code_of(*launch.kernel, operation, label_, command.where);
  if (launch.shared_bytes > code.most_shared_bytes) {
    throw Error(Errc::invalid_value, operation, label_ + quoted(launch.kernel->name),
                std::to_string(launch.shared_bytes) + " bytes of shared memory per block: at most " +
                    std::to_string(code.most_shared_bytes) + " are possible beside what the kernel has of its own",
                command.where);
  }
  if (skips_all()) return;
  detail::DeviceGuard heeds = guard_of(threads_of(launch), command.where);
  heeds.times = times;
  PreparedLaunch prepared(code, launch, heeds);
  const cudaStream_t queue = stream(command.where);
  const auto launch_it = [&] {
    return driver().launch_kernel(prepared.function, prepared.grid_x, prepared.grid_y, 1, prepared.threads, 1, 1,
                                  prepared.shared_bytes, queue, prepared.arguments, nullptr);
  };
  if (times != nullptr && !means_another_device() && launch_it() == CUDA_SUCCESS) return;
  // The driver may have no context on this thread yet, or need the right one.
  const ContextScope scope(device_.index());
  const CUresult answer = launch_it();
  const std::string_view name = launch.name != nullptr ? std::string_view(launch.name) : launch.kernel->name;
  check(static_cast<cudaError_t>(answer), operation, label_ + quoted(name), command.where);
}

void CudaQueue::launch_global(const Command& command, const Launch& launch) {
  constexpr const char* operation = "weir::cuda::launch";
  const auto& call = *static_cast<const detail::GlobalCall*>(launch.closure);
  const cudaStream_t queue = stream(command.where);
  if (skips_all()) return;
  if (call.declined != nullptr && in_doubt()) {
    *call.declined = true;
    return;
  }
  const DeviceScope scope(device_.index());
  const int answer = call.launch(call, queue);
  check(static_cast<cudaError_t>(answer), operation, label_, command.where);
}

}  // namespace weir::cuda
