// The CUDA backend: its devices, and what it knows of an address.
#include "backends/cuda/cuda_backend.hpp"

#include <algorithm>
#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <weir/dlpack.hpp>

#include "backend.hpp"
#include "backends/cuda/collectives/nccl_library.hpp"
#include "backends/cuda/collectives/nccl_mover.hpp"
#include "backends/cuda/collectives/nccl_transport.hpp"
#include "backends/cuda/collectives/rank_transport.hpp"
#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/cuda/graphs/cuda_graph.hpp"
#include "backends/cuda/memory/cuda_pool.hpp"
#include "backends/cuda/memory/cuda_sharing.hpp"
#include "backends/cuda/memory/pinned_memory.hpp"
#include "backends/cuda/streams/cuda_event.hpp"
#include "backends/cuda/streams/cuda_queue.hpp"

namespace weir::cuda {

namespace {

class CudaBackend final : public Backend {
 public:
  static CudaBackend& instance() {
    static auto& backend = *new CudaBackend;  // outlives every static object of the program
    return backend;
  }

  std::string_view name() const override { return "cuda"; }
  int dlpack_type() const override { return dlpack::kDLCUDA; }
  bool runs_global_functions() const override { return true; }
  int device_count() override {
    const int count = driver().device_count;
    std::call_once(made_, [&] {
      for (int i = 0; i < count; ++i) devices_.emplace_back(*this, i);
    });
    return count;
  }
  std::string why_absent() override { return driver().why_absent; }
  DeviceProperties properties(int device) override { return at(device).properties(); }
  void synchronize(int device, const char* operation, SourceLocation where) override {
    at(device).synchronize(operation, where);
  }
  void drain(int device) noexcept override { at(device).drain(); }
  void set_wait_mode(int device, WaitMode mode, SourceLocation where) override {
    at(device).set_wait_mode(mode, where);
  }
  void report_times() noexcept override { CommandTimes::tell_what_is_over(); }
  KernelFacts kernel_facts(int device, const Kernel& kernel, const char* operation, SourceLocation where) override {
    return at(device).kernel_facts(kernel, operation, where);
  }
  std::size_t resident_blocks(int device, const Kernel& kernel, std::size_t threads, std::size_t shared_bytes,
                              const char* operation, SourceLocation where) override {
    return at(device).resident_blocks(kernel, threads, shared_bytes, operation, where);
  }

  Queue& open_queue(int device, const QueueOptions& options) override { return at(device).open_queue(options); }
  Queue* wrap_queue(int device, void* native, const QueueOptions& options) override {
    return &at(device).wrap_queue(static_cast<cudaStream_t>(native), options);
  }

  detail::EventState& open_event(int device, bool timed) override { return at(device).open_event(timed); }
  detail::PoolState& default_pool(int device) override { return at(device).default_pool(); }
  detail::PoolState& open_pool(int device, const PoolOptions& options) override {
    return at(device).open_pool(options);
  }

  detail::HostMemory* host_memory() override { return &PinnedMemory::instance(); }
  detail::MemorySharing* memory_sharing() override { return &CudaSharing::instance(); }
  std::optional<PointerInfo> locate(const void* data) override;

  detail::GraphExecutable* instantiate(int device, const detail::GraphForm& form, void* driver_graph,
                                       SourceLocation where) override {
    std::unique_ptr<DriverGraph> graph(static_cast<DriverGraph*>(driver_graph));
    return new CudaGraph(at(device), form, std::move(graph), where);
  }

  std::unique_ptr<detail::CollectiveTransport> open_transport(const std::vector<int>& devices) override;
  std::unique_ptr<detail::CollectiveTransport> open_rank_transport(int device) override {
    return std::make_unique<RankTransport>(at(device));
  }
  std::string rank_mover(int device) override { return mover_of(at(device)); }
  std::unique_ptr<detail::RankMover> open_rank_mover(int device) override {
    return std::make_unique<NcclMover>(at(device));
  }

  bool can_access_peer(int from, int to) override { return at(from).can_access(to); }
  bool peer_access(int from, int to) override { return at(from).peer_access(to); }
  void set_peer_access(int from, int to, bool enabled) override { at(from).set_peer_access(at(to), enabled); }

 private:
  CudaDevice& at(int device) { return devices_[static_cast<std::size_t>(device)]; }

  bool in_use();

  std::once_flag made_;
  std::atomic<bool> in_use_{false};
  std::deque<CudaDevice> devices_;
};

std::unique_ptr<detail::CollectiveTransport> CudaBackend::open_transport(const std::vector<int>& devices) {
  std::vector<CudaDevice*> found;
  for (const int device : devices) {
    CudaDevice& one = at(device);
    if (std::find(found.begin(), found.end(), &one) != found.end()) {
      throw one.name() + " is given twice: of GPUs each is one rank";
    }
    found.push_back(&one);
  }
  if (!nccl().why_absent.empty()) throw nccl().why_absent;
  return std::make_unique<NcclTransport>(std::move(found));
}

/// Whether any device has a context: without one there is no memory to find, and asking would make one.
bool CudaBackend::in_use() {
  if (in_use_.load(std::memory_order_relaxed)) return true;
  for (int device = 0; device < device_count(); ++device) {
    unsigned flags = 0;
    int active = 0;
    if (driver().context_state(device, &flags, &active) == CUDA_SUCCESS && active != 0) {
      in_use_.store(true, std::memory_order_relaxed);
      return true;
    }
  }
  return false;
}

std::optional<PointerInfo> CudaBackend::locate(const void* data) {
  if (data == nullptr || device_count() == 0) return std::nullopt;
  if (const auto own = PinnedMemory::instance().find(data)) return own;
  if (!in_use()) return std::nullopt;
  cudaPointerAttributes attributes{};
  const cudaError_t answer = cudaPointerGetAttributes(&attributes, data);
  if (answer != cudaSuccess) {
    note(answer);
    return std::nullopt;
  }
  if (attributes.type == cudaMemoryTypeUnregistered) return std::nullopt;
  PointerInfo info;
  info.kind = attributes.type == cudaMemoryTypeHost ? MemoryKind::pinned : MemoryKind::device;
  info.device = info.kind == MemoryKind::device ? attributes.device : -1;
  CUdeviceptr base = 0;
  std::size_t bytes = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(data);
  const auto find = [&] { return driver().address_range(&base, &bytes, address) == CUDA_SUCCESS; };
  const auto find_in_device = [&] {
    const DeviceScope scope(attributes.device >= 0 ? attributes.device : 0);
    return find();
  };
  if (find() || find_in_device()) {  // it may be of the thread's own context
    info.bytes = static_cast<std::size_t>(base + bytes - address);
  } else {
    info.bytes = ~std::size_t{0};  // foreign memory whose end the driver does not tell
  }
  return info;
}

}  // namespace

Backend& backend() { return CudaBackend::instance(); }

}  // namespace weir::cuda
