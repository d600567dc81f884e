// Copies: which engine or kernel does them, and what pageable memory asks for (R36 to R42).
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include <weir/host_call.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/graphs/driver_graph.hpp"
#include "backends/cuda/memory/copy_threads.hpp"
#include "backends/cuda/memory/layout.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/memory/staged_copy.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"
#include "failure_reports.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

constexpr const char* copying = "weir::copy";
constexpr std::size_t least_staged_out = 256 * 1024;    ///< brought out by chunks
constexpr std::size_t least_shared_bytes = 512 * 1024;  ///< taken by several threads
constexpr std::size_t most_embedded_bytes = 64 * 1024;  ///< the driver takes these along with the command
constexpr std::size_t most_early_bytes = 64 * 1024;     ///< the driver may read pinned memory too early for these
constexpr std::size_t least_engine_run = 64;            ///< shorter rows are faster by a kernel
constexpr std::size_t most_pitch = 0x7fffffff;

std::size_t bytes_of(const Layout& layout) { return layout.shape.count() * layout.element_bytes; }

/// Runs on the host in stream order; may own its source.
class HostCopy final : public detail::HostFunction {
 public:
  HostCopy(const Copy& copy, bool owns_source) : copy_(copy), owns_source_(owns_source) {}
  ~HostCopy() override {
    if (owns_source_) std::free(const_cast<void*>(copy_.from));
  }
  void call(NativeStream) override {
    copy_by_host(copy_.to, copy_.to_layout, copy_.from, copy_.from_layout);
    if (done_) done_->store(true, std::memory_order_release);
  }
  /// Is true once it was called, which it is not behind a failure.
  std::shared_ptr<const std::atomic<bool>> done() { return done_ = std::make_shared<std::atomic<bool>>(false); }

 private:
  Copy copy_;
  bool owns_source_;
  std::shared_ptr<std::atomic<bool>> done_;
};

/// Two bytes of pinned memory, of which the first becomes the second in stream order, but for behind a failure.
class SkippedMark {
 public:
  static constexpr std::size_t bytes = 2;
  explicit SkippedMark(void* memory) : memory_(static_cast<std::atomic<std::uint8_t>*>(memory)) {
    new (memory_) std::atomic<std::uint8_t>(0);
    new (memory_ + 1) std::atomic<std::uint8_t>(1);
  }
  Copy copy() const {
    Copy one{};
    one.to = memory_;
    one.from = memory_ + 1;
    one.to_layout = one.from_layout = dense_layout(Shape(1), 1);
    one.to_kind = one.from_kind = MemoryKind::pinned;
    return one;
  }
  bool skipped() const { return memory_->load(std::memory_order_acquire) == 0; }

 private:
  std::atomic<std::uint8_t>* memory_;
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
  } else if (to_pageable || copy.from_kind == MemoryKind::pageable) {
    check_no_foreign_capture(copying, command.where);
    to_pageable ? copy_to_pageable(command, copy) : copy_from_pageable(command, copy);
  } else if (!skips_all()) {
    copy_on_device(command, copy);
  }
}

/// Whether kernels of this queue's device reach the memory.
bool CudaQueue::reaches(MemoryKind kind, int device) const {
  return kind != MemoryKind::device || device == device_.index() || device_.peer_access(device);
}

/// By a stream of another device, in the order of this one. The failures are this queue's: the helper has none, for it would
/// tell them once more.
void CudaQueue::submit_elsewhere(CudaDevice& device, const std::function<void(CudaQueue& helper)>& submit) {
  QueueOptions options;
  options.kind = QueueOptions::Kind::internal;
  options.blocking = false;
  options.label = label_;
  CudaQueue& helper = device.open_queue(options);
  const auto retire = [](CudaQueue* queue) { queue->retire(); };
  const std::unique_ptr<CudaQueue, decltype(retire)> owner(&helper, retire);
  const auto mark = [&](CudaQueue& queue) {  // a command, with the legacy stream's order
    const cudaStream_t stream = queue.stream({});
    StockEvent end(queue.device_, false, {});
    const DeviceScope scope(queue.device_.index());
    check(cudaEventRecord(end.get(), stream), copying, label_, {});
    return end;
  };
  helper.come_after(mark(*this).get());
  submit(helper);
  come_after(mark(helper).get());
}

void CudaQueue::copy_elsewhere(const Command& command, const Copy& copy, CudaDevice& device) {
  if (capture_ != nullptr) {
    CudaQueue& other = capture_->helper_behind(*this, device, command.where);
    other.copy_on_device(command, copy);
    capture_->rejoin(*this, other, command.where);
    return;
  }
  check_no_foreign_capture(copying, command.where);
  submit_elsewhere(device, [&](CudaQueue& helper) { helper.copy_on_device(command, copy, *this); });
}

void CudaQueue::copy_on_device(const Command& command, const Copy& copy, const CudaQueue& owner) {
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
  const bool doubt = owner.in_doubt();
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
    const detail::DeviceGuard heeds =
        &owner == this ? guard_of(bytes_of(copy.from_layout) / unit, command.where) : owner.guard();
    answer = launch_strided_copy(job, unit, heeds, queue);
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
  const bool waits = bytes > detail::most_taken_bytes;
  if (failures().skips_all()) {
    if (waits) synchronize(copying, command.where);
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
  if (plain && bytes <= most_embedded_bytes && copy.to_device == device_.index() && !failures().in_doubt()) {
    const cudaStream_t queue = stream(command.where);
    const DeviceScope scope(device_.index());
    check(cudaMemcpyAsync(copy.to, copy.from, bytes, cudaMemcpyDefault, queue), copying, label_, command.where);
    return;
  }
  if (plain && waits) return copy_staged(command, copy, StagedWay::in);
  PinnedMemory& pinned = PinnedMemory::instance();
  void* memory = pinned.take_for_staging(bytes, copying, command.where);
  const Copy staged = through(copy, memory).second;
  if (plain && bytes >= least_shared_bytes) {
    CopyThreads::instance().copy(memory, copy.from, bytes);
  } else {
    copy_by_host(memory, staged.from_layout, copy.from, copy.from_layout);
  }
  try {
    copy_on_device(command, staged);
  } catch (...) {
    pinned.give(memory);
    throw;
  }
  pinned.give_after(memory, *this);
  if (!waits) return;
  synchronize(copying, command.where);
}

void CudaQueue::copy_to_pageable(const Command& command, const Copy& copy) {
  if (copy.from_kind != MemoryKind::device) {
    copy_on_host(command, copy, false);
    return;
  }
  const std::size_t bytes = bytes_of(copy.to_layout);
  if (bytes >= least_staged_out && is_dense(copy.to_layout) && is_dense(copy.from_layout)) {
    if (failures().skips_all()) throw_skipped(copying, command.where);
    return copy_staged(command, copy, StagedWay::out);
  }
  PinnedMemory& pinned = PinnedMemory::instance();
  void* memory = pinned.take_for_staging(bytes + SkippedMark::bytes, copying, command.where);
  const Copy staged = through(copy, memory).first;
  try {
    if (failures().skips_all()) throw_skipped(copying, command.where);
    std::optional<SkippedMark> mark;
    if (failures().in_doubt()) {
      // Before the copy: another thread may be told of the failure between both, and what is behind that runs.
      mark.emplace(static_cast<char*>(memory) + bytes);
      copy_on_device(command, mark->copy());
    }
    copy_on_device(command, staged);
    synchronize(copying, command.where);
    if (mark && mark->skipped()) throw_skipped(copying, command.where);
  } catch (...) {
    pinned.give_after(memory, *this);
    throw;
  }
  copy_by_host(copy.to, copy.to_layout, memory, staged.to_layout);
  pinned.give(memory);
}

/// What the copy should have brought is not there, and whoever asked for it must hear so, if another thread was told already.
void CudaQueue::throw_skipped(const char* operation, SourceLocation where) {
  synchronize(operation, where);
  if (const auto error = failures().last_taken()) detail::throw_seen(*error);
  throw Error(Errc::host_function_failed, operation, label_, "what comes before it in its stream failed", where);
}

/// In a graph nothing is taken at the call: each replay reads and writes the user's memory. The driver copies what is dense;
/// the rest goes by host functions, and through pinned memory that is the graph's.
void CudaQueue::copy_pageable_in_graph(const Command& command, const Copy& copy) {
  const bool between_hosts = copy.to_kind != MemoryKind::device && copy.from_kind != MemoryKind::device;
  const auto by_host = [&](const Copy& part) {
    auto function = std::make_unique<HostCopy>(part, false);
    submit_call(command, function.get(), nullptr);
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
  const auto done = owns_source ? nullptr : function->done();
  submit_call(command, function.get(), nullptr);
  static_cast<void>(function.release());
  if (owns_source) return;
  synchronize(copying, command.where);
  if (!*done && copy.to_kind == MemoryKind::pageable) throw_skipped(copying, command.where);
}

}  // namespace weir::cuda
