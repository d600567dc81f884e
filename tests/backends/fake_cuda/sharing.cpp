// Pools that processes share: a file of the host, whose descriptor is the pool's handle.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "backends/fake_cuda/world.hpp"

namespace fake_cuda {

namespace {

constexpr std::size_t page = 4096;
std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }

/// A block of cudaMalloc() for other processes.
struct Handle {
  pid_t process;
  int file;
  std::size_t bytes;
  int device;
};
static_assert(sizeof(Handle) <= sizeof(cudaIpcMemHandle_t));

struct Exported {
  std::size_t offset;
  std::size_t bytes;
  int device;
};
static_assert(sizeof(Exported) <= sizeof(cudaMemPoolPtrExportData));

void* map(int file, std::size_t bytes, std::size_t offset) {
  void* data = mmap(nullptr, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  return data == MAP_FAILED ? nullptr : data;
}

bool is_pool(cudaMemPool_t pool) { return pool != nullptr && world().pools.count(pool) > 0; }

}  // namespace

bool open_shared_file(CUmemPoolHandle_st& pool) {
  pool.file = memfd_create("fake pool", MFD_CLOEXEC);
  return pool.file >= 0;
}

void* take_shared(CUmemPoolHandle_st& pool, std::size_t bytes, std::size_t& offset) {
  offset = pool.end;
  if (ftruncate(pool.file, static_cast<off_t>(offset + whole_pages(bytes))) != 0) return nullptr;
  pool.end += whole_pages(bytes);
  return map(pool.file, bytes, offset);
}

void give_shared(std::uintptr_t address, const Block& block) {
  munmap(reinterpret_cast<void*>(address), whole_pages(block.bytes));
  if (block.file >= 0) close(block.file);
}

void* take_shareable(std::size_t bytes, int& file) {
  file = memfd_create("fake memory", MFD_CLOEXEC);
  const bool has_room = file >= 0 && ftruncate(file, static_cast<off_t>(whole_pages(bytes))) == 0;
  return has_room ? map(file, bytes, 0) : nullptr;
}

}  // namespace fake_cuda

using namespace fake_cuda;

extern "C" {

cudaError_t cudaMemPoolExportToShareableHandle(void* handle, cudaMemPool_t pool, cudaMemAllocationHandleType type,
                                               unsigned flags) {
  FAKE_CALL(cudaMemPoolExportToShareableHandle, plain, {
    if (!is_pool(pool) || pool->file < 0 || pool->imported || flags != 0) return cudaErrorInvalidValue;
    if (type != cudaMemHandleTypePosixFileDescriptor) return cudaErrorInvalidValue;
    pool->exported = true;
    const int copy = dup(pool->file);
    std::memcpy(handle, &copy, sizeof copy);
    return copy >= 0 ? cudaSuccess : cudaErrorOperatingSystem;
  });
}
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t* made, void* handle, cudaMemAllocationHandleType type,
                                                 unsigned flags) {
  FAKE_CALL(cudaMemPoolImportFromShareableHandle, plain, {
    if (type != cudaMemHandleTypePosixFileDescriptor || flags != 0) return cudaErrorInvalidValue;
    const int copy = dup(static_cast<int>(reinterpret_cast<std::uintptr_t>(handle)));
    if (copy < 0) return cudaErrorOperatingSystem;
    auto* pool = new CUmemPoolHandle_st;
    pool->file = copy;
    pool->imported = true;
    world().pools.insert(pool);
    *made = pool;
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolExportPointer(cudaMemPoolPtrExportData* exported, void* data) {
  FAKE_CALL(cudaMemPoolExportPointer, plain, {
    std::uintptr_t begin = 0;
    const Block* block = block_at(data, &begin);
    if (block == nullptr || !block->mapped || block->imported || block->freed) return cudaErrorInvalidValue;
    if (begin != reinterpret_cast<std::uintptr_t>(data) || !block->pool->exported) return cudaErrorInvalidValue;
    const Exported facts{block->offset, block->bytes, block->device};
    *exported = {};
    std::memcpy(exported, &facts, sizeof facts);
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolImportPointer(void** data, cudaMemPool_t pool, cudaMemPoolPtrExportData* exported) {
  FAKE_CALL(cudaMemPoolImportPointer, plain, {
    if (!is_pool(pool) || !pool->imported) return cudaErrorInvalidValue;
    Exported facts{};
    std::memcpy(&facts, exported, sizeof facts);
    *data = map(pool->file, facts.bytes, facts.offset);
    if (*data == nullptr) return cudaErrorInvalidValue;
    Block& block = world().blocks[reinterpret_cast<std::uintptr_t>(*data)];
    block = Block{facts.bytes, cudaMemoryTypeDevice, facts.device, false, pool};
    block.mapped = true;
    block.imported = true;
    block.offset = facts.offset;
    return cudaSuccess;
  });
}
cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* made, void* data) {
  FAKE_CALL(cudaIpcGetMemHandle, plain, {
    std::uintptr_t begin = 0;
    const Block* block = block_at(data, &begin);
    if (block == nullptr || block->file < 0 || begin != reinterpret_cast<std::uintptr_t>(data)) {
      return cudaErrorInvalidValue;
    }
    const Handle handle{getpid(), block->file, block->bytes, block->device};
    *made = {};
    std::memcpy(made, &handle, sizeof handle);
    return cudaSuccess;
  });
}
cudaError_t cudaIpcOpenMemHandle(void** data, cudaIpcMemHandle_t given, unsigned) {
  FAKE_CALL(cudaIpcOpenMemHandle, plain, {
    Handle handle{};
    std::memcpy(&handle, &given, sizeof handle);
    if (handle.process == getpid()) return cudaErrorDeviceUninitialized;  // not by who made it
    const std::string name = "/proc/" + std::to_string(handle.process) + "/fd/" + std::to_string(handle.file);
    const int file = open(name.c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0) return cudaErrorInvalidValue;
    *data = map(file, handle.bytes, 0);
    close(file);
    if (*data == nullptr) return cudaErrorInvalidValue;
    Block& block = world().blocks[reinterpret_cast<std::uintptr_t>(*data)];
    block = Block{handle.bytes, cudaMemoryTypeDevice, handle.device, false, nullptr};
    block.mapped = true;
    block.imported = true;
    return cudaSuccess;
  });
}
cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t pool, cudaMemLocation*) {
  FAKE_CALL(cudaMemPoolGetAccess, plain, {
    if (!is_pool(pool)) return cudaErrorInvalidValue;
    *flags = cudaMemAccessFlagsProtReadWrite;
    return cudaSuccess;
  });
}

}  // extern "C"
