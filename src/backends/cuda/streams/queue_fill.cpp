// Fills: the driver's for what it can do, a kernel for the rest.
#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include <weir/host_call.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/memory/layout.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

constexpr const char* filling = "weir::fill";

class HostFill final : public detail::HostFunction {
 public:
  explicit HostFill(const Fill& fill)
      : fill_(fill),
        value_(static_cast<const char*>(fill.value), static_cast<const char*>(fill.value) + fill.layout.element_bytes) {
  }
  void call(NativeStream) override { fill_by_host(fill_.to, fill_.layout, value_.data()); }

 private:
  Fill fill_;
  std::vector<char> value_;
};

/// Dense memory, by the driver; cudaErrorNotSupported where it has no fill of this kind.
cudaError_t fill_by_driver(const Fill& fill, std::size_t bytes, cudaStream_t stream) {
  const auto* value = static_cast<const unsigned char*>(fill.value);
  const std::size_t size = fill.layout.element_bytes;
  const auto to = reinterpret_cast<CUdeviceptr>(fill.to);
  if (std::all_of(value, value + size, [&](unsigned char byte) { return byte == value[0]; })) {
    return static_cast<cudaError_t>(driver().set_bytes(to, value[0], bytes, stream));
  }
  if (size == 2) {
    unsigned short word;
    std::memcpy(&word, value, sizeof word);
    return static_cast<cudaError_t>(driver().set_words(to, word, bytes / sizeof word, stream));
  }
  if (size == 4) {
    unsigned word;
    std::memcpy(&word, value, sizeof word);
    return static_cast<cudaError_t>(driver().set_double_words(to, word, bytes / sizeof word, stream));
  }
  return cudaErrorNotSupported;
}

FillPattern pattern_of(const Fill& fill, std::size_t unit) {
  FillPattern pattern{};
  const std::size_t size = fill.layout.element_bytes;
  for (std::size_t at = 0; at < std::max(size, unit); at += size) std::memcpy(pattern.bytes + at, fill.value, size);
  pattern.units = static_cast<std::uint32_t>(std::max<std::size_t>(size / unit, 1));
  return pattern;
}

/// The largest unit of which whole elements are made, or which is made of whole elements.
std::size_t most_unit(std::size_t element_bytes) {
  constexpr std::size_t most = 16;
  if (most % element_bytes == 0) return most;
  std::size_t unit = most;
  while (element_bytes % unit != 0) unit /= 2;
  return unit;
}

}  // namespace

void CudaQueue::submit_fill(const Command& command, const Fill& fill) {
  if (fill.kind == MemoryKind::pageable) {
    auto function = std::make_unique<HostFill>(fill);
    submit_call(command, function.get(), nullptr);
    static_cast<void>(function.release());
    if (capture_ != nullptr) return;
    synchronize(filling, command.where);
    return;
  }
  if (skips_all()) return;
  const Rows rows = merge(fill.layout, fill.layout);
  const cudaStream_t queue = stream(command.where);
  const DeviceScope scope(device_.index());
  const bool doubt = in_doubt();
  if (rows.rank == 0 && fill.kind == MemoryKind::device && !doubt) {
    const cudaError_t answer = fill_by_driver(fill, rows.run, queue);
    if (answer == cudaSuccess) return;
    // Memory of a peer the driver does not fill (R189), a kernel does.
    if (answer != cudaErrorNotSupported && answer != cudaErrorInvalidValue && answer != cudaErrorDeviceUninitialized) {
      check(answer, filling, label_, command.where);
    }
  }
  if (fill.layout.element_bytes > FillPattern::most_bytes) {
    fill_large(command, fill);
    return;
  }
  std::size_t unit = 0;
  const StridedJob job = job_of(rows, fill.to, nullptr, most_unit(fill.layout.element_bytes), unit);
  const detail::DeviceGuard heeds =
      guard_of(fill.layout.shape.count() * fill.layout.element_bytes / unit, command.where);
  check(launch_strided_fill(job, unit, pattern_of(fill, unit), heeds, queue), filling, label_, command.where);
}

/// Elements that are too large for a kernel's parameters: a copy that reads the same one everywhere.
void CudaQueue::fill_large(const Command& command, const Fill& fill) {
  PinnedMemory& pinned = PinnedMemory::instance();
  void* memory = pinned.take(fill.layout.element_bytes, filling, command.where);
  std::memcpy(memory, fill.value, fill.layout.element_bytes);
  Layout same = fill.layout;
  std::fill_n(same.stride, max_rank, 0);
  std::size_t unit = 0;
  const StridedJob job = job_of(merge(fill.layout, same), fill.to, memory, 16, unit);
  const cudaError_t answer = launch_strided_copy(job, unit, guard(), stream(command.where));
  give_after_use(memory);
  check(answer, filling, label_, command.where);
}

}  // namespace weir::cuda
