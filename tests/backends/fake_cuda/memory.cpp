// Device memory, pools, pinned memory, and what an address is.
#include <algorithm>
#include <cstdlib>

#include "backends/fake_cuda/world.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define FAKE_CUDA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAKE_CUDA_ASAN 1
#endif
#endif
#if defined(FAKE_CUDA_ASAN)
#include <sanitizer/asan_interface.h>
#endif

namespace fake_cuda {

namespace {

constexpr std::size_t reserve_step = std::size_t{32} << 20;
std::size_t round_up(std::size_t bytes, std::size_t step) { return (bytes + step - 1) / step * step; }

Device& device_at(int index) { return *world().devices[static_cast<std::size_t>(index)]; }

std::size_t device_total() {
  static const std::size_t total = [] {
    const char* asked = std::getenv("WEIR_FAKE_CUDA_MIB");
    return (asked != nullptr ? static_cast<std::size_t>(std::atol(asked)) : std::size_t{8192}) << 20;
  }();
  return total;
}

std::size_t taken_of(int device) {
  std::size_t taken = device_at(device).used;
  for (const CUmemPoolHandle_st* pool : world().pools) taken += pool->device == device ? pool->reserved : 0;
  return taken;
}

/// Fresh memory that nobody has written, as large ones cost nothing until they are used.
constexpr std::size_t least_shareable = 65'536;  ///< of cudaMalloc()
void* take_memory(std::size_t bytes) { return std::aligned_alloc(512, round_up(bytes, 512)); }

// Memory that nobody owns, so that AddressSanitizer sees who uses it all the same.
#if defined(FAKE_CUDA_ASAN)
void poison(std::uintptr_t address, std::size_t bytes) {
  __asan_poison_memory_region(reinterpret_cast<void*>(address), bytes);
}
void unpoison(std::uintptr_t address, std::size_t bytes) {
  __asan_unpoison_memory_region(reinterpret_cast<void*>(address), bytes);
}
#else
void poison(std::uintptr_t, std::size_t) {}
void unpoison(std::uintptr_t, std::size_t) {}
#endif

bool is_live(cudaMemPool_t pool) { return pool != nullptr && world().pools.count(pool) > 0; }

/// A block whose free is done goes back to the host.
void drop(std::uintptr_t address) {
  const auto found = world().blocks.find(address);
  unpoison(found->first, found->second.bytes);
  if (found->second.mapped) {
    give_shared(address, found->second);
  } else {
    std::free(reinterpret_cast<void*>(address));
  }
  world().blocks.erase(found);
}

/// The pool keeps free blocks within what it has reserved.
void drop_surplus(CUmemPoolHandle_st& pool) {
  std::size_t kept = 0;
  for (std::size_t i = pool.freed.size(); i-- > 0;) {
    const Block& block = world().blocks.at(pool.freed[i]);
    if (!block.freed->done) continue;
    if (pool.used + kept + block.bytes <= pool.reserved) {
      kept += block.bytes;
      continue;
    }
    drop(pool.freed[i]);
    pool.freed.erase(pool.freed.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool grow(CUmemPoolHandle_st& pool, std::size_t bytes) {
  if (pool.most != 0 && pool.used + bytes > pool.most) return false;
  if (pool.used + bytes > pool.reserved) {
    std::size_t reserved = round_up(pool.used + bytes, reserve_step);
    if (pool.most != 0) reserved = std::min(reserved, pool.most);
    if (taken_of(pool.device) - pool.reserved + reserved > device_total()) return false;
    pool.reserved = reserved;
    pool.reserved_high = std::max(pool.reserved_high, reserved);
  }
  pool.used += bytes;
  return true;
}

/// Memory that the stream itself freed, or that is free by now, of the size or a little more (R96, R97).
void* take_freed(Call& call, CUmemPoolHandle_st& pool, std::size_t bytes, const CUstream_st& stream) {
  for (std::size_t i = pool.freed.size(); i-- > 0;) {
    const std::uintptr_t address = pool.freed[i];
    Block& block = world().blocks.at(address);
    if (block.bytes < bytes || block.bytes / 2 > bytes) continue;
    const bool done = block.freed->done;
    if (!done && block.freed_in != &stream) continue;
    if (done) {
      pool.used += block.bytes;
      static_cast<void>(is_done(call, block.freed));
    }
    block.freed = nullptr;
    pool.freed.erase(pool.freed.begin() + static_cast<std::ptrdiff_t>(i));
    unpoison(address, block.bytes);
    return reinterpret_cast<void*>(address);
  }
  return nullptr;
}

cudaError_t allocate_from_pool(Call& call, void** data, std::size_t bytes, cudaMemPool_t pool, cudaStream_t handle) {
  if (data == nullptr || !is_live(pool) || pool->imported) return cudaErrorInvalidValue;
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  *data = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (bytes > device_total()) return cudaErrorMemoryAllocation;
  void* memory = captured ? nullptr : take_freed(call, *pool, bytes, *stream);
  if (memory == nullptr) {
    if (!grow(*pool, bytes)) return cudaErrorMemoryAllocation;
    std::size_t offset = 0;
    memory = pool->file >= 0 ? take_shared(*pool, bytes, offset) : take_memory(bytes);
    Block& block = world().blocks[reinterpret_cast<std::uintptr_t>(memory)];
    block = Block{bytes, cudaMemoryTypeDevice, pool->device, false, pool};
    block.mapped = pool->file >= 0;
    block.offset = offset;
  }
  drop_surplus(*pool);
  if (captured) capture_node(*stream, cudaGraphNodeTypeMemAlloc, {});
  *data = memory;
  return cudaSuccess;
}

/// Where a free has been run: its block is nobody's, unless its stream has taken it again.
void end_free(std::uintptr_t address, const Op* op) {
  const auto found = world().blocks.find(address);
  if (found == world().blocks.end() || found->second.freed.get() != op) return;
  if (found->second.imported) return drop(address);
  found->second.pool->used -= found->second.bytes;
  poison(address, found->second.bytes);
}

cudaError_t free_async(Call& call, void* data, cudaStream_t handle) {
  const StreamRef stream = find(call, handle);
  if (!stream) return cudaErrorInvalidResourceHandle;
  bool captured = false;
  if (const cudaError_t no = enter_stream(call, stream, captured)) return no;
  if (data == nullptr) return cudaSuccess;
  const auto found = world().blocks.find(reinterpret_cast<std::uintptr_t>(data));
  if (found == world().blocks.end() || found->second.type != cudaMemoryTypeDevice || found->second.freed) {
    return cudaErrorInvalidValue;  // R100
  }
  if (captured) return cudaErrorInvalidValue;  // R138
  Block& block = found->second;
  if (block.pool == nullptr) return cudaErrorNotSupported;
  const std::uintptr_t address = found->first;
  const OpRef op = new_op(call, Op::Kind::marker, stream->device);
  op->run = [address, op = op.get()] {
    const Hidden hidden;
    const std::lock_guard guard(world().mutex);
    end_free(address, op);
  };
  block.freed = op;
  block.freed_in = stream.get();
  block.told = false;
  if (!block.imported) block.pool->freed.push_back(address);
  enqueue(call, stream, op);
  return cudaSuccess;
}

/// What is not in use beyond the threshold goes back (R102), but for what is still held.
void release_unused(CUmemPoolHandle_st& pool, std::size_t keep, std::size_t held = 0) {
  std::size_t least = round_up(pool.used + held, reserve_step);
  if (pool.most != 0) least = std::min(least, pool.most);
  pool.reserved = std::max(least, std::min(pool.reserved, keep > device_total() ? keep : round_up(keep, reserve_step)));
  drop_surplus(pool);
}

/// Bytes whose free has run, which the host does not know: the driver holds them as in use, also when the pool is trimmed.
std::size_t untold_of(const CUmemPoolHandle_st& pool) {
  std::size_t untold = 0;
  for (const std::uintptr_t address : pool.freed) {
    const Block& block = world().blocks.at(address);
    if (block.freed->done && !block.told) untold += block.bytes;
  }
  return untold;
}

cudaError_t get_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, void* value) {
  auto& number = *static_cast<cuuint64_t*>(value);
  switch (attribute) {
    case cudaMemPoolAttrReleaseThreshold: number = pool.threshold; return cudaSuccess;
    case cudaMemPoolAttrReservedMemCurrent: number = pool.reserved; return cudaSuccess;
    case cudaMemPoolAttrReservedMemHigh: number = pool.reserved_high; return cudaSuccess;
    case cudaMemPoolAttrUsedMemCurrent: number = pool.used; return cudaSuccess;
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t set_attribute(CUmemPoolHandle_st& pool, cudaMemPoolAttr attribute, const void* value) {
  const auto number = *static_cast<const cuuint64_t*>(value);
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    pool.threshold = static_cast<std::size_t>(number);
    return cudaSuccess;
  }
  if (attribute != cudaMemPoolAttrReservedMemHigh || number != 0) return cudaErrorInvalidValue;
  pool.reserved_high = pool.reserved;
  return cudaSuccess;
}

/// Until all that is pending now has ended, on all devices (R56, R58, R59).
void wait_for_all_kernels(Call& call) {
  for (const OpRef& op : last_ops(-1)) wait_for(call, op);
}

cudaError_t free_host(Call& call, void* data) {
  if (data == nullptr) return cudaSuccess;
  if (const cudaError_t no = unsafe(call)) return no;
  const auto is_own = [&] {
    const auto found = world().blocks.find(reinterpret_cast<std::uintptr_t>(data));
    return found != world().blocks.end() && found->second.type == cudaMemoryTypeHost && !found->second.registered;
  };
  if (!is_own()) return cudaErrorInvalidValue;
  wait_for_all_kernels(call);
  if (!is_own()) return cudaErrorInvalidValue;
  drop(reinterpret_cast<std::uintptr_t>(data));
  return cudaSuccess;
}

cudaError_t register_host(Call& call, void* data, std::size_t bytes) {
  if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
  if (const cudaError_t no = unsafe(call)) return no;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (const auto& [address, block] : world().blocks) {
    if (address >= begin + bytes || address + block.bytes <= begin) continue;
    return block.registered ? cudaErrorHostMemoryAlreadyRegistered : cudaErrorInvalidValue;
  }
  world().blocks[begin] = Block{bytes, cudaMemoryTypeHost, current_device(), true, nullptr};
  return cudaSuccess;
}

cudaError_t unregister_host(Call& call, void* data) {
  if (const cudaError_t no = unsafe(call)) return no;
  const auto registered = [&]() -> cudaError_t {
    std::uintptr_t begin = 0;
    const Block* block = block_at(data, &begin);
    if (block == nullptr) return cudaErrorHostMemoryNotRegistered;
    if (!block->registered || begin != reinterpret_cast<std::uintptr_t>(data)) return cudaErrorInvalidValue;
    return cudaSuccess;
  };
  if (const cudaError_t no = registered()) return no;
  wait_for_all_kernels(call);
  if (const cudaError_t no = registered()) return no;
  world().blocks.erase(reinterpret_cast<std::uintptr_t>(data));
  return cudaSuccess;
}

}  // namespace

const Block* block_at(const void* data, std::uintptr_t* begin) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  auto next = world().blocks.upper_bound(address);
  if (next == world().blocks.begin()) return nullptr;
  --next;
  if (address - next->first >= next->second.bytes) return nullptr;
  if (begin != nullptr) *begin = next->first;
  return &next->second;
}

namespace {
template <class Told>
void release_unused(int device, const Told& is_told) {
  for (CUmemPoolHandle_st* pool : world().pools) {
    if (pool->device != device) continue;
    for (const std::uintptr_t address : pool->freed) {
      Block& block = world().blocks.at(address);
      block.told = block.told || (block.freed->done && is_told(block));
    }
    release_unused(*pool, pool->threshold, untold_of(*pool));
  }
}
}  // namespace

void release_unused(int device, const CUstream_st& stream) {
  release_unused(device, [&](const Block& block) { return block.freed_in == &stream; });
}
void release_unused(int device) {
  release_unused(device, [](const Block&) { return true; });
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaMalloc(void** data, size_t bytes) {
  FAKE_CALL(cudaMalloc, plain, {
    if (const cudaError_t no = unsafe(call)) return no;
    wait_for_others_room(call);
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    const int device = current_device();
    if (bytes > device_total() || taken_of(device) + bytes > device_total()) return cudaErrorMemoryAllocation;
    int file = -1;
    *data = bytes >= least_shareable ? take_shareable(bytes, file) : take_memory(bytes);
    if (*data == nullptr) return cudaErrorMemoryAllocation;
    device_at(device).used += bytes;
    Block& block = world().blocks[reinterpret_cast<std::uintptr_t>(*data)];
    block = Block{bytes, cudaMemoryTypeDevice, device, false, nullptr};
    block.mapped = file >= 0;
    block.file = file;
    return cudaSuccess;
  });
}
cudaError_t cudaFree(void* data) {
  FAKE_CALL(cudaFree, plain, {
    device_at(current_device()).started = true;
    if (data == nullptr) return cudaSuccess;
    if (const cudaError_t no = unsafe(call)) return no;
    const auto found = world().blocks.find(reinterpret_cast<std::uintptr_t>(data));
    if (found == world().blocks.end() || found->second.type != cudaMemoryTypeDevice || found->second.freed) {
      return cudaErrorInvalidValue;
    }
    if (found->second.pool != nullptr) return cudaErrorNotSupported;  // the backend does no such thing
    const std::size_t bytes = found->second.bytes;
    wait_for_all_kernels(call);
    device_at(current_device()).used -= bytes;
    drop(reinterpret_cast<std::uintptr_t>(data));
    return cudaSuccess;
  });
}
cudaError_t cudaMallocFromPoolAsync(void** data, size_t bytes, cudaMemPool_t pool, cudaStream_t stream) {
  FAKE_CALL(cudaMallocFromPoolAsync, plain, { return allocate_from_pool(call, data, bytes, pool, stream); });
}
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream) {
  FAKE_CALL(cudaFreeAsync, plain, { return free_async(call, data, stream); });
}
cudaError_t cudaMemPoolCreate(cudaMemPool_t* made, const cudaMemPoolProps* props) {
  FAKE_CALL(cudaMemPoolCreate, plain, {
    auto* pool = new CUmemPoolHandle_st;
    pool->device = props->location.id;
    pool->most = props->maxSize;
    if (props->handleTypes == cudaMemHandleTypePosixFileDescriptor && !open_shared_file(*pool)) {
      return cudaErrorMemoryAllocation;
    }
    world().pools.insert(pool);
    *made = pool;
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
  FAKE_CALL(cudaMemPoolDestroy, plain, {
    if (!is_live(pool)) return cudaErrorInvalidValue;
    if (pool->used > 0) return cudaErrorNotSupported;  // the backend keeps pools
    pool->reserved = 0;
    drop_surplus(*pool);
    world().pools.erase(pool);
    delete pool;
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  FAKE_CALL(cudaMemPoolGetAttribute, plain,
            { return is_live(pool) ? get_attribute(*pool, attribute, value) : cudaErrorInvalidValue; });
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  FAKE_CALL(cudaMemPoolSetAttribute, plain,
            { return is_live(pool) ? set_attribute(*pool, attribute, value) : cudaErrorInvalidValue; });
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
  FAKE_CALL(cudaMemPoolTrimTo, plain, {
    if (!is_live(pool)) return cudaErrorInvalidValue;
    release_unused(*pool, keep, untold_of(*pool));
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const cudaMemAccessDesc*, size_t) {
  FAKE_CALL(cudaMemPoolSetAccess, plain, { return is_live(pool) ? cudaSuccess : cudaErrorInvalidValue; });
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  FAKE_CALL(cudaMemGetInfo, plain, {
    device_at(current_device()).started = true;
    *total = device_total();
    *free = *total - std::min(*total, taken_of(current_device()));
    return cudaSuccess;
  });
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
  FAKE_CALL(cudaHostAlloc, plain, {
    if (const cudaError_t no = unsafe(call)) return no;
    wait_for_others_room(call);
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    if (bytes > std::size_t{1} << 40) return cudaErrorMemoryAllocation;
    *data = take_memory(bytes);
    if (*data == nullptr) return cudaErrorMemoryAllocation;
    device_at(current_device()).started = true;
    world().blocks[reinterpret_cast<std::uintptr_t>(*data)] =
        Block{bytes, cudaMemoryTypeHost, current_device(), false, nullptr};
    return cudaSuccess;
  });
}
cudaError_t cudaFreeHost(void* data) {
  FAKE_CALL(cudaFreeHost, plain, { return free_host(call, data); });
}
cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned) {
  FAKE_CALL(cudaHostRegister, plain, { return register_host(call, data, bytes); });
}
cudaError_t cudaHostUnregister(void* data) {
  FAKE_CALL(cudaHostUnregister, plain, { return unregister_host(call, data); });
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  FAKE_CALL(cudaPointerGetAttributes, plain, {
    *attributes = {};
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = -2;
    attributes->hostPointer = const_cast<void*>(data);
    if (const Block* block = block_at(data)) {
      attributes->type = block->type;
      attributes->device = block->device;
      attributes->devicePointer = const_cast<void*>(data);
      if (block->type == cudaMemoryTypeDevice) attributes->hostPointer = nullptr;
    }
    return cudaSuccess;
  });
}
CUresult cuMemGetAddressRange(CUdeviceptr* base, size_t* bytes, CUdeviceptr address) {
  const auto run = [&]() -> cudaError_t {
    FAKE_CALL(cuMemGetAddressRange, of_driver, {
      std::uintptr_t begin = 0;
      const Block* block = block_at(reinterpret_cast<void*>(address), &begin);
      if (block == nullptr) return cudaErrorInvalidValue;
      *base = begin;
      *bytes = block->bytes;
      return cudaSuccess;
    });
  };
  return static_cast<CUresult>(run());
}

}  // extern "C"
