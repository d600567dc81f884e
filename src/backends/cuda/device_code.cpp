// Kernels on a device: found, measured once, and remembered with their code.
#include <algorithm>
#include <memory>
#include <new>

#include <weir/kernel.hpp>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "thread_safety.hpp"

namespace weir::cuda {

namespace {

/// More threads in a block are no faster where the elements are independent, and end later.
constexpr int usual_block = 256;

std::size_t no_shared_memory(int) { return 0; }

LoadedCode* table_of(detail::DeviceCode& code) {
  if (void* table = code.loaded.load(std::memory_order_acquire)) return static_cast<LoadedCode*>(table);
  auto table = std::make_unique<LoadedCode[]>(static_cast<std::size_t>(driver().device_count));
  void* nothing = nullptr;
  if (code.loaded.compare_exchange_strong(nothing, table.get())) return table.release();
  return static_cast<LoadedCode*>(nothing);
}

}  // namespace

void CudaDevice::load(detail::DeviceCode& code, SourceLocation where) {
  constexpr const char* operation = "weir::launch";
  LoadedCode& loaded = table_of(code)[index_];
  const DeviceScope scope(index_);
  const Driver& d = driver();
  void* found = nullptr;
  check(static_cast<cudaError_t>(code.load(&found)), operation, name_, where);
  auto* function = static_cast<CUfunction>(found);
  int most = 0;
  check(static_cast<cudaError_t>(d.function_attribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)),
        operation, name_, where);
  int shared = 0;
  int block = 0;
  if (code.kind == detail::DeviceCode::Kind::blocks) {
    check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, index_), operation, name_, where);
    // What the kernel has of its own, as for Block::reduce, comes off what a launch may ask for.
    int own = 0;
    check(static_cast<cudaError_t>(d.function_attribute(&own, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)),
          operation, name_, where);
    shared -= own;
    check(static_cast<cudaError_t>(
              d.set_function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)),
          operation, name_, where);
  } else {
    int grid = 0;
    check(static_cast<cudaError_t>(
              d.best_block(&grid, &block, function, &no_shared_memory, 0, std::min(usual_block, most))),
          operation, name_, where);
  }
  // Threads that came here together found the same. The lock is not held while the driver loads, as that waits for what runs (R66).
  const detail::LockGuard guard(code_mutex_);
  if (loaded.function.load(std::memory_order_relaxed) != nullptr) return;
  loaded.most_threads = static_cast<unsigned>(most);
  loaded.most_shared_bytes = static_cast<std::size_t>(shared);
  loaded.block = static_cast<unsigned>(block);
  loaded.function.store(function, std::memory_order_release);
}

void CudaDevice::load_file([[maybe_unused]] const detail::DeviceCode& code) noexcept {
#if CUDA_VERSION >= 12040
  const Driver& d = driver();
  void* one = nullptr;
  CUmodule file = nullptr;
  unsigned count = 0;
  if (d.load_function == nullptr || code.load(&one) != cudaSuccess) return;
  if (d.module_of(&file, static_cast<CUfunction>(one)) != CUDA_SUCCESS) return;
  if (d.function_count(&count, file) != CUDA_SUCCESS || count == 0) return;
  const std::unique_ptr<CUfunction[]> functions(new (std::nothrow) CUfunction[count]);
  if (functions == nullptr || d.functions(functions.get(), count, file) != CUDA_SUCCESS) return;
  std::for_each_n(functions.get(), count, [&](CUfunction function) { static_cast<void>(d.load_function(function)); });
#endif
}

const LoadedCode& CudaDevice::code_of(const Kernel& kernel, const char* operation, const std::string& object,
                                      SourceLocation where) {
  auto* code = static_cast<detail::DeviceCode*>(const_cast<void*>(kernel.device_code));
  if (code == nullptr) {
    throw Error(Errc::not_supported, operation, object,
                "kernel '" + std::string(kernel.name) +
                    "' has no GPU code: compile the file that launches it with nvcc (in CMake: "
                    "weir_kernel_sources(target file)), mark the kernel WEIR_KERNEL, and do not wrap it in host_only",
                where);
  }
  start(where);
  if (const LoadedCode* loaded = known(*code)) return *loaded;
  load(*code, where);
  return *known(*code);
}

KernelFacts CudaDevice::kernel_facts(const Kernel& kernel, const char* operation, SourceLocation where) {
  const LoadedCode& code = code_of(kernel, operation, name_, where);
  const ContextScope scope(index_);
  const auto attribute = [&](CUfunction_attribute which) {
    int value = 0;
    check(static_cast<cudaError_t>(driver().function_attribute(&value, which, code.function.load())), operation, name_,
          where);
    return value;
  };
  int threads = 0;
  check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, index_), operation, name_, where);
  KernelFacts facts;
  facts.registers = attribute(CU_FUNC_ATTRIBUTE_NUM_REGS);
  facts.local_bytes = static_cast<std::size_t>(attribute(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  facts.shared_bytes = static_cast<std::size_t>(attribute(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
  facts.max_shared_bytes = code.most_shared_bytes;
  facts.max_threads = code.most_threads;
  facts.usual_threads = code.block;
  facts.threads_per_multiprocessor = static_cast<std::size_t>(threads);
  return facts;
}

std::size_t CudaDevice::resident_blocks(const Kernel& kernel, std::size_t threads, std::size_t shared_bytes,
                                        const char* operation, SourceLocation where) {
  const LoadedCode& code = code_of(kernel, operation, name_, where);
  const ContextScope scope(index_);
  int blocks = 0;
  check(static_cast<cudaError_t>(
            driver().resident_blocks(&blocks, code.function.load(), static_cast<int>(threads), shared_bytes)),
        operation, name_, where);
  return static_cast<std::size_t>(blocks);
}

}  // namespace weir::cuda
