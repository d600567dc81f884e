// The functions that allocate, replaced. The linker hands malloc and aligned_alloc of all objects to the __wrap_ functions.
#include "injector.hpp"

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <new>

namespace {

constinit std::atomic<std::int64_t> left{-1};  ///< before the one that fails; below 0: none does
constinit std::atomic<bool> failed{false};
constinit std::atomic<bool> others{false};
constinit thread_local bool mine = false;
constinit std::atomic<std::int64_t> live{0};

bool fails() {
  if (left.load(std::memory_order_relaxed) < 0 || mine == others.load(std::memory_order_relaxed)) return false;
  if (left.fetch_sub(1, std::memory_order_relaxed) != 0) return false;
  failed.store(true);
  return true;
}

void* counted(void* block) {
  if (block != nullptr) live.fetch_add(1, std::memory_order_relaxed);
  return block;
}

}  // namespace

namespace weir_test {

void fail_allocation(Whose whose, std::int64_t n) {
  mine = true;
  others.store(whose == Whose::others);
  failed.store(false);
  left.store(n);
}

bool stop_failing() {
  left.store(-1);
  mine = false;
  return failed.load();
}

std::int64_t live_blocks() { return live.load(); }

}  // namespace weir_test

extern "C" {
void* __real_malloc(std::size_t bytes);
void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void __real_free(void* block);

void* __wrap_malloc(std::size_t bytes) {
  if (fails()) {
    errno = ENOMEM;
    return nullptr;
  }
  return counted(__real_malloc(bytes));
}
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (fails()) {
    errno = ENOMEM;
    return nullptr;
  }
  return counted(__real_aligned_alloc(alignment, bytes));
}
void __wrap_free(void* block) {
  if (block != nullptr) live.fetch_sub(1, std::memory_order_relaxed);
  __real_free(block);
}
}

namespace {
void* allocate(std::size_t bytes) {
  void* block = __wrap_malloc(bytes == 0 ? 1 : bytes);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
void* allocate(std::size_t bytes, std::align_val_t alignment) {
  const auto unit = static_cast<std::size_t>(alignment);
  void* block = __wrap_aligned_alloc(unit, (bytes + unit - 1) / unit * unit);
  if (block == nullptr) throw std::bad_alloc();
  return block;
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void* operator new(std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, alignment); }
void* operator new[](std::size_t bytes, std::align_val_t alignment) { return allocate(bytes, alignment); }
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept { return __wrap_malloc(bytes == 0 ? 1 : bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return __wrap_malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* block) noexcept { __wrap_free(block); }
void operator delete[](void* block) noexcept { __wrap_free(block); }
void operator delete(void* block, std::size_t) noexcept { __wrap_free(block); }
void operator delete[](void* block, std::size_t) noexcept { __wrap_free(block); }
void operator delete(void* block, std::align_val_t) noexcept { __wrap_free(block); }
void operator delete[](void* block, std::align_val_t) noexcept { __wrap_free(block); }
void operator delete(void* block, std::size_t, std::align_val_t) noexcept { __wrap_free(block); }
void operator delete[](void* block, std::size_t, std::align_val_t) noexcept { __wrap_free(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { __wrap_free(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { __wrap_free(block); }
