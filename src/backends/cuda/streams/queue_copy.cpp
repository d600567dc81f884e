// Copies: which engine or kernel does them, and what pageable memory asks for (R36 to R42).
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include <weir/host_call.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/memory/layout.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

constexpr const char* copying = "weir::copy";
constexpr std::size_t most_staged_bytes = std::size_t{1} << 20;  ///< taken at the call
constexpr std::size_t most_embedded_bytes = 64 * 1024;           ///< the driver takes these along with the command
constexpr std::size_t most_early_bytes = 64 * 1024;  ///< the driver may read pinned memory too early for these
constexpr std::size_t least_engine_run = 64;         ///< shorter rows are faster by a kernel
constexpr std::size_t most_pitch = 0x7fffffff;

std::size_t bytes_of(const Layout& layout) { return layout.shape.count() * layout.element_bytes; }

/// Runs on the host in stream order; may own its source.
class HostCopy final : public detail::HostFunction {
 public:
  HostCopy(const Copy& copy, bool owns_source) : copy_(copy), owns_source_(owns_source) {}
  ~HostCopy() override {
    if (owns_source_) std::free(const_cast<void*>(copy_.from));
  }
  void call(NativeStream) override { copy_by_host(copy_.to, copy_.to_layout, copy_.from, copy_.from_layout); }

 private:
  Copy copy_;
  bool owns_source_;
};

bool pitched(const Rows& rows) {
  const std::size_t last = rows.rank - 1;
  const auto fits = [&](std::ptrdiff_t pitch) {
    return pitch >= static_cast<std::ptrdiff_t>(rows.run) && pitch <= static_cast<std::ptrdiff_t>(most_pitch);
  };
  return fits(rows.to[last]) && fits(rows.from[last]);
}

/// Where the two sides lie. The driver needs to be told where it is not two devices that reach each other.
struct Route {
  bool between;  ///< two devices
  int to;
  int from;
};

cudaError_t copy_plane(const Rows& rows, void* to, const void* from, const Route& route, cudaStream_t stream) {
  const std::size_t last = rows.rank - 1;
  if (route.between) {
    const auto pitched_pointer = [&](void* data, std::ptrdiff_t pitch) {
      return cudaPitchedPtr{data, static_cast<std::size_t>(pitch), rows.run, rows.size[last]};
    };
    cudaMemcpy3DPeerParms parameters{};
    parameters.srcPtr = pitched_pointer(const_cast<void*>(from), rows.from[last]);
    parameters.srcDevice = route.from;
    parameters.dstPtr = pitched_pointer(to, rows.to[last]);
    parameters.dstDevice = route.to;
    parameters.extent = cudaExtent{rows.run, rows.size[last], 1};
    return cudaMemcpy3DPeerAsync(&parameters, stream);
  }
  return cudaMemcpy2DAsync(to, static_cast<std::size_t>(rows.to[last]), from, static_cast<std::size_t>(rows.from[last]),
                           rows.run, rows.size[last], cudaMemcpyDefault, stream);
}

/// Whether slices lie a whole number of rows apart on both sides, as the driver's 3-D copies need it.
bool is_volume(const Rows& rows) {
  const auto whole = [&](const auto& stride) {
    return stride[0] > 0 && stride[0] % stride[1] == 0 &&
           stride[0] / stride[1] >= static_cast<std::ptrdiff_t>(rows.size[1]);
  };
  return rows.rank == 2 && pitched(rows) && whole(rows.to) && whole(rows.from);
}

cudaError_t copy_volume(const Rows& rows, void* to, const void* from, cudaStream_t stream) {
  const auto pitched_pointer = [&](void* data, const auto& stride) {
    return cudaPitchedPtr{data, static_cast<std::size_t>(stride[1]), rows.run,
                          static_cast<std::size_t>(stride[0] / stride[1])};
  };
  cudaMemcpy3DParms parameters{};
  parameters.srcPtr = pitched_pointer(const_cast<void*>(from), rows.from);
  parameters.dstPtr = pitched_pointer(to, rows.to);
  parameters.extent = cudaExtent{rows.run, rows.size[1], rows.size[0]};
  parameters.kind = cudaMemcpyDefault;
  return cudaMemcpy3DAsync(&parameters, stream);
}

/// Plane by plane, where neither an engine takes the whole nor a kernel reaches both sides.
cudaError_t copy_planes(const Rows& rows, char* to, const char* from, const Route& route, cudaStream_t stream) {
  if (rows.rank == 0) {
    return route.between ? cudaMemcpyPeerAsync(to, route.to, from, route.from, rows.run, stream)
                         : cudaMemcpyAsync(to, from, rows.run, cudaMemcpyDefault, stream);
  }
  if (rows.rank == 1 && pitched(rows)) return copy_plane(rows, to, from, route, stream);
  Rows inner = rows;
  inner.rank = rows.rank - 1;
  for (std::size_t d = 0; d < inner.rank; ++d) {
    inner.size[d] = rows.size[d + 1];
    inner.to[d] = rows.to[d + 1];
    inner.from[d] = rows.from[d + 1];
  }
  for (std::size_t i = 0; i < rows.size[0]; ++i) {
    const auto step = static_cast<std::ptrdiff_t>(i);
    const cudaError_t answer = copy_planes(inner, to + step * rows.to[0], from + step * rows.from[0], route, stream);
    if (answer != cudaSuccess) return answer;
  }
  return cudaSuccess;
}

/// A copy in two: into dense pinned memory, and out of it.
std::pair<Copy, Copy> through(const Copy& copy, void* pinned) {
  Copy into = copy;
  Copy out_of = copy;
  into.to = pinned;
  out_of.from = pinned;
  into.to_kind = out_of.from_kind = MemoryKind::pinned;
  into.to_layout = out_of.from_layout = dense_layout(copy.to_layout.shape, copy.to_layout.element_bytes);
  return {into, out_of};
}

/// The device whose streams can do a copy that a stream of `own` cannot: its memory is mapped for its own device alone
/// (pools, R204). Negative: `own` can.
int device_for(const Copy& copy, int own) {
  const bool to = copy.to_kind == MemoryKind::device;
  const bool from = copy.from_kind == MemoryKind::device;
  if ((!to && !from) || (to && copy.to_device == own) || (from && copy.from_device == own)) return -1;
  return to ? copy.to_device : copy.from_device;
}

}  // namespace

void CudaQueue::submit_copy(const Command& command, const Copy& copy) {
  const bool to_pageable = copy.to_kind == MemoryKind::pageable;
  if (capture_ != nullptr && (to_pageable || copy.from_kind == MemoryKind::pageable)) {
    copy_pageable_in_graph(command, copy);
  } else if (to_pageable) {
    copy_to_pageable(command, copy);
  } else if (copy.from_kind == MemoryKind::pageable) {
    copy_from_pageable(command, copy);
  } else if (!skips_all()) {
    copy_on_device(command, copy);
  }
}

/// Whether kernels of this queue's device reach the memory.
bool CudaQueue::reaches(MemoryKind kind, int device) const {
  return kind != MemoryKind::device || device == device_.index() || device_.peer_access(device);
}

/// By a stream of another device, in the order of this one.
void CudaQueue::copy_elsewhere(const Command& command, const Copy& copy, CudaDevice& device) {
  if (capture_ != nullptr) {
    CudaQueue& other = capture_->helper_behind(*this, device, command.where);
    other.copy_on_device(command, copy);
    capture_->rejoin(*this, other, command.where);
    return;
  }
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.label = label_;
  CudaQueue& helper = device.open_queue(options);
  const auto retire = [](CudaQueue* queue) { queue->retire(); };
  const std::unique_ptr<CudaQueue, decltype(retire)> owner(&helper, retire);
  static_cast<void>(stream(command.where));  // made here, for that takes the same lock
  {
    const detail::LockGuard guard(mutex_);
    helper.come_after(mark_end(End::as_a_command));
  }
  if (failures_.in_doubt()) {
    helper.ensure_flag(command.where);
    helper.failures_.depend_on(failures_, failures_.place());
  }
  helper.copy_on_device(command, copy);
  const detail::LockGuard guard(helper.mutex_);
  come_after(helper.mark_end(End::own_work));
}

void CudaQueue::copy_on_device(const Command& command, const Copy& copy) {
  const int elsewhere = device_for(copy, device_.index());
  if (elsewhere >= 0) return copy_elsewhere(command, copy, CudaDevice::at(elsewhere));
  const Rows rows = merge(copy.to_layout, copy.from_layout);
  const cudaStream_t queue = stream(command.where);
  const DeviceScope scope(device_.index());
  const bool host_only = copy.to_kind != MemoryKind::device && copy.from_kind != MemoryKind::device;
  const bool reached = reaches(copy.to_kind, copy.to_device) && reaches(copy.from_kind, copy.from_device);
  bool between =
      copy.to_kind == MemoryKind::device && copy.from_kind == MemoryKind::device && copy.to_device != copy.from_device;
  if (between && capture_ != nullptr) {
    // The driver captures no peer copies. A plain one does the same where the memory is mapped here.
    if (!reached) return copy_between_in_graph(command, copy);
    between = false;
  }
  const bool doubt = in_doubt();
  // The driver reads a small pinned source at the call where only the legacy stream's rules put other work first.
  const bool early = (blocking_ || legacy_ || wrapped_) && capture_ == nullptr &&
                     copy.from_kind == MemoryKind::pinned && bytes_of(copy.from_layout) <= most_early_bytes;
  const bool engine =
      rows.rank == 0 || (rows.run >= least_engine_run && (is_volume(rows) || (rows.rank == 1 && pitched(rows))));
  const bool by_kernel = reached && (host_only || doubt || early || !engine);
  cudaError_t answer = cudaSuccess;
  if (by_kernel) {
    std::size_t unit = 0;
    const StridedJob job = job_of(rows, copy.to, copy.from, 16, unit);
    answer = launch_strided_copy(job, unit, guard(), queue);
  } else if (is_volume(rows) && !between) {
    answer = copy_volume(rows, copy.to, copy.from, queue);
  } else {
    answer = copy_planes(rows, static_cast<char*>(copy.to), static_cast<const char*>(copy.from),
                         Route{between, copy.to_device, copy.from_device}, queue);
  }
  check(answer, copying, label_, command.where);
}

void CudaQueue::copy_from_pageable(const Command& command, const Copy& copy) {
  const std::size_t bytes = bytes_of(copy.from_layout);
  const bool waits = bytes > most_staged_bytes;
  if (failures_.skips_all()) {
    if (waits) throw_failure();
    return;
  }
  if (copy.to_kind == MemoryKind::pinned) {
    if (waits) return copy_on_host(command, copy, false);
    Copy staged = copy;
    staged.from_layout = dense_layout(copy.from_layout.shape, copy.from_layout.element_bytes);
    void* memory = std::malloc(bytes);
    if (memory == nullptr) refuse(cudaErrorMemoryAllocation, copying, "host memory", command.where);
    copy_by_host(memory, staged.from_layout, copy.from, copy.from_layout);
    staged.from = memory;
    return copy_on_host(command, staged, true);
  }
  const bool plain = is_dense(copy.to_layout) && is_dense(copy.from_layout);
  if (plain && bytes <= most_embedded_bytes && copy.to_device == device_.index() && !failures_.in_doubt()) {
    const cudaStream_t queue = stream(command.where);
    const DeviceScope scope(device_.index());
    check(cudaMemcpyAsync(copy.to, copy.from, bytes, cudaMemcpyDefault, queue), copying, label_, command.where);
    return;
  }
  if (plain && waits) {
    copy_when_idle(command, copy, copy.to_device);
    return;
  }
  PinnedMemory& pinned = PinnedMemory::instance();
  void* memory = pinned.take(bytes, copying, command.where);
  const Copy staged = through(copy, memory).second;
  copy_by_host(memory, staged.from_layout, copy.from, copy.from_layout);
  try {
    copy_on_device(command, staged);
  } catch (...) {
    pinned.give(memory);
    throw;
  }
  pinned.give_after(memory, *this);
  if (!waits) return;
  wait_for_all(copying, command.where);
  throw_failure();
}

/// A copy that the driver stages itself, chunk by chunk. It would wait for the stream inside that call, and hold up every
/// other thread's calls meanwhile (R207); so this waits first, and copies where nothing is pending.
void CudaQueue::copy_when_idle(const Command& command, const Copy& copy, int device) {
  wait_for_all(copying, command.where);
  throw_failure();
  const cudaStream_t side = CudaDevice::at(device).side_stream(command.where);
  const DeviceScope scope(device);
  check(cudaMemcpyAsync(copy.to, copy.from, bytes_of(copy.to_layout), cudaMemcpyDefault, side), copying, label_,
        command.where);
  check(cudaStreamSynchronize(side), copying, label_, command.where);
}

void CudaQueue::copy_to_pageable(const Command& command, const Copy& copy) {
  if (copy.from_kind != MemoryKind::device) {
    copy_on_host(command, copy, false);
    return;
  }
  const std::size_t bytes = bytes_of(copy.to_layout);
  if (bytes > most_staged_bytes && is_dense(copy.to_layout) && is_dense(copy.from_layout)) {
    copy_when_idle(command, copy, copy.from_device);
    return;
  }
  PinnedMemory& pinned = PinnedMemory::instance();
  void* memory = pinned.take(bytes, copying, command.where);
  const Copy staged = through(copy, memory).first;
  try {
    if (!failures_.skips_all()) copy_on_device(command, staged);
    wait_for_all(copying, command.where);
    throw_failure();
  } catch (...) {
    pinned.give_after(memory, *this);
    throw;
  }
  copy_by_host(copy.to, copy.to_layout, memory, staged.to_layout);
  pinned.give(memory);
}

/// In a graph nothing is taken at the call: each replay reads and writes the user's memory. The driver copies what is dense;
/// the rest goes by host functions, and through pinned memory that is the graph's.
void CudaQueue::copy_pageable_in_graph(const Command& command, const Copy& copy) {
  const bool between_hosts = copy.to_kind != MemoryKind::device && copy.from_kind != MemoryKind::device;
  const auto by_host = [&](const Copy& part) {
    auto function = std::make_unique<HostCopy>(part, false);
    submit_call(command, function.get());
    static_cast<void>(function.release());
  };
  if (between_hosts) return by_host(copy);
  const int device = copy.to_kind == MemoryKind::device ? copy.to_device : copy.from_device;
  const bool dense = is_dense(copy.to_layout) && is_dense(copy.from_layout);
  if (dense && device == device_.index() && !in_doubt()) {
    const cudaStream_t queue = stream(command.where);
    const DeviceScope scope(device_.index());
    check(cudaMemcpyAsync(copy.to, copy.from, bytes_of(copy.to_layout), cudaMemcpyDefault, queue), copying, label_,
          command.where);
    return;
  }
  const bool up = copy.from_kind == MemoryKind::pageable;
  PinnedMemory& pinned = PinnedMemory::instance();
  void* memory = pinned.take(bytes_of(copy.to_layout), copying, command.where);
  give_after_use(memory);
  const auto [first, second] = through(copy, memory);
  if (up) {
    by_host(first);
    copy_on_device(command, second);
  } else {
    copy_on_device(command, first);
    by_host(second);
  }
}

/// Between two devices that do not reach each other: through pinned memory, each half by a stream of its device.
void CudaQueue::copy_between_in_graph(const Command& command, const Copy& copy) {
  void* memory = PinnedMemory::instance().take(bytes_of(copy.to_layout), copying, command.where);
  give_after_use(memory);
  const auto [out, in] = through(copy, memory);
  copy_on_device(command, out);
  copy_on_device(command, in);
}

void CudaQueue::give_after_use(void* memory) noexcept {
  if (capture_ == nullptr) return PinnedMemory::instance().give_after(memory, *this);
  try {
    capture_->own(std::shared_ptr<const void>(memory, [](void* data) { PinnedMemory::instance().give(data); }));
  } catch (...) {
    // Without memory for the list it is not used again.
  }
}

/// Between host memories of which one is pageable: by a host function; returns when it is done unless it owns its source.
void CudaQueue::copy_on_host(const Command& command, const Copy& copy, bool owns_source) {
  auto function = std::make_unique<HostCopy>(copy, owns_source);
  submit_call(command, function.get());
  static_cast<void>(function.release());
  if (owns_source) return;
  wait_for_all(copying, command.where);
  throw_failure();
}

}  // namespace weir::cuda
