// Kernels: parameters are copied at the call, and the host side of the functor runs.
#include <cstring>
#include <iterator>
#include <new>

#include <weir/detail/device_code.hpp>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t value_alignment = 64;

std::shared_ptr<void> copy_of(const void* value, std::size_t bytes) {
  const std::size_t size = bytes == 0 ? 1 : bytes;
  void* memory = ::operator new(size, std::align_val_t(value_alignment));
  std::memcpy(memory, value, bytes);
  return {memory, [](void* data) { ::operator delete(data, std::align_val_t(value_alignment)); }};
}

cudaError_t launch(Call& call, CUfunc_st* function, dim3 grid, dim3 block, std::size_t shared, void** arguments,
                   cudaStream_t handle) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  std::shared_ptr<const KernelCall> kernel;
  if (const cudaError_t no = make_kernel(function, grid, block, shared, arguments, kernel)) {
    if (stream->capture) static_cast<void>(invalidate(*stream->capture, no));  // R144
    return no;
  }
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  Work work;
  work.kernel = kernel;
  work.action = [kernel] { (*kernel)(); };
  return put_work(call, stream, cudaGraphNodeTypeKernel, std::move(work));
}

cudaError_t make_kernel(const CUDA_KERNEL_NODE_PARAMS& p, std::shared_ptr<const KernelCall>& kernel) {
  return make_kernel(p.func, dim3(p.gridDimX, p.gridDimY, p.gridDimZ), dim3(p.blockDimX, p.blockDimY, p.blockDimZ),
                     p.sharedMemBytes, p.kernelParams, kernel);
}

/// Weir's kernels have their guard last.
void note_guard(const KernelCall& kernel) {
  const Dimensions& d = kernel.dimensions;
  const std::uint64_t threads = std::uint64_t{d.grid[0]} * d.grid[1] * d.grid[2] * d.block[0] * d.block[1] * d.block[2];
  const std::size_t last = kernel.function->count - 1;
  if (threads <= 4096 || kernel.function->sizes[last] != sizeof(weir::detail::DeviceGuard)) return;
  const auto& heeded = *static_cast<const weir::detail::DeviceGuard*>(kernel.values[last].get());
  if (heeded.failed_at == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(heeded.failed_at);
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  const auto next = world().blocks.upper_bound(address);
  if (next == world().blocks.begin()) return;
  const auto& [begin, block] = *std::prev(next);
  if (address - begin < block.bytes && block.type == cudaMemoryTypeHost) ++world().distant_guards;
}

}  // namespace

std::uint64_t distant_guards() {
  const Hidden hidden;
  const std::lock_guard guard(world().mutex);
  return world().distant_guards;
}

void KernelCall::operator()() const {
  note_guard(*this);
  void* arguments[4] = {};
  for (std::size_t i = 0; i < values.size(); ++i) arguments[i] = values[i].get();
  function->run(dimensions, arguments);
}

cudaError_t make_kernel(CUfunc_st* function, dim3 grid, dim3 block, std::size_t shared, void** arguments,
                        std::shared_ptr<const KernelCall>& made) {
  if (function == nullptr) return cudaErrorInvalidDeviceFunction;
  const bool wrong = grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 || block.x == 0 ||
                     block.x * block.y * block.z > 1024 || shared > 232448;
  if (wrong) return cudaErrorInvalidValue;  // R168
  auto kernel = std::make_shared<KernelCall>();
  kernel->function = function;
  kernel->dimensions = {{grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<unsigned>(shared)};
  for (std::size_t i = 0; i < function->count; ++i) {
    kernel->values.push_back(copy_of(arguments[i], function->sizes[i]));
  }
  made = std::move(kernel);
  return cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared, CUstream stream, void** arguments,
                        void**) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuLaunchKernel, of_driver, {
      return launch(call, function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), shared, arguments,
                    stream);
    });
  };
  return static_cast<CUresult>(run());
}
cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared,
                             cudaStream_t stream) {
  FAKE_CALL(cudaLaunchKernel, plain, {
    return launch(call, static_cast<CUfunc_st*>(const_cast<void*>(function)), grid, block, shared, arguments, stream);
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  FAKE_CALL(cudaFuncGetAttributes, plain, {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    return function != nullptr ? cudaSuccess : cudaErrorInvalidDeviceFunction;
  });
}
CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
           : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                : 0;
  return CUDA_SUCCESS;
}
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }
CUresult cuOccupancyMaxPotentialBlockSize(int* grid, int* block, CUfunction, CUoccupancyB2DSize, size_t, int most) {
  *grid = 132;
  *block = most > 0 && most < 1024 ? most : 1024;
  return CUDA_SUCCESS;
}
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction, int threads, size_t) {
  *blocks = 2048 / ((threads + 31) / 32 * 32);
  return CUDA_SUCCESS;
}
CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS* parameters) {
  const auto run = [&]() -> cudaError_t {
    FAKE_GRAPH_CALL(cuGraphKernelNodeSetParams, of_driver | in_context, (node), {
      std::shared_ptr<const KernelCall> kernel;
      const cudaError_t no = make_kernel(*parameters, kernel);
      return no != cudaSuccess ? no : set_kernel(call, node, kernel);
    });
  };
  return static_cast<CUresult>(run());
}
CUresult cuGraphExecKernelNodeSetParams(CUgraphExec instance, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS* parameters) {
  const auto run = [&]() -> cudaError_t {
    FAKE_GRAPH_CALL(cuGraphExecKernelNodeSetParams, of_driver | in_context, (instance, node), {
      std::shared_ptr<const KernelCall> kernel;
      const cudaError_t no = make_kernel(*parameters, kernel);
      return no != cudaSuccess ? no : set_kernel(call, instance, node, kernel);
    });
  };
  return static_cast<CUresult>(run());
}

namespace {
cudaError_t make_kernel_of(const cudaKernelNodeParams& p, std::shared_ptr<const KernelCall>& kernel) {
  return make_kernel(static_cast<CUfunc_st*>(p.func), p.gridDim, p.blockDim, p.sharedMemBytes, p.kernelParams, kernel);
}
}  // namespace

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node, const cudaKernelNodeParams* parameters) {
  FAKE_GRAPH_CALL(cudaGraphKernelNodeSetParams, plain, (node), {
    std::shared_ptr<const KernelCall> kernel;
    const cudaError_t no = make_kernel_of(*parameters, kernel);
    return no != cudaSuccess ? no : set_kernel(call, node, kernel);
  });
}
cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t instance, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* parameters) {
  FAKE_GRAPH_CALL(cudaGraphExecKernelNodeSetParams, plain, (instance, node), {
    std::shared_ptr<const KernelCall> kernel;
    const cudaError_t no = make_kernel_of(*parameters, kernel);
    return no != cudaSuccess ? no : set_kernel(call, instance, node, kernel);
  });
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* behind,
                                   size_t count, const cudaKernelNodeParams* parameters) {
  FAKE_GRAPH_CALL(cudaGraphAddKernelNode, plain, (graph), {
    Work work;
    std::shared_ptr<const KernelCall> kernel;
    if (const cudaError_t no = make_kernel_of(*parameters, kernel)) return no;
    work.kernel = std::move(kernel);
    *node = add_node(graph, cudaGraphNodeTypeKernel, {behind, behind + count}, std::move(work));
    return cudaSuccess;
  });
}

}  // extern "C"
