// The store of free chunks.
#include "backends/cpu/streams/record.hpp"

#include <cstdlib>
#include <new>

#include "backends/cpu/workers/futex.hpp"

namespace weir::cpu {

namespace {
constexpr std::size_t most_free_chunks = 2048;

struct FreeChunks {
  SpinLock lock;
  Chunk* first = nullptr;
  std::size_t count = 0;
};
FreeChunks& free_chunks() {
  static auto& chunks = *new FreeChunks;
  return chunks;
}

Chunk* new_chunk(std::size_t bytes) {
  void* memory = std::aligned_alloc(alignof(Chunk), (bytes + 63) & ~std::size_t{63});
  if (memory == nullptr) throw std::bad_alloc();
  return ::new (memory) Chunk{nullptr, (bytes + 63) & ~std::size_t{63}};
}
}  // namespace

Chunk* take_chunk(std::size_t payload_bytes) {
  const std::size_t bytes = sizeof(Chunk) + payload_bytes + round_record(sizeof(Record));
  if (bytes > Chunk::usual_bytes) return new_chunk(bytes);
  FreeChunks& chunks = free_chunks();
  {
    SpinGuard guard(chunks.lock);
    if (Chunk* chunk = chunks.first) {
      chunks.first = chunk->next;
      --chunks.count;
      chunk->next = nullptr;
      return chunk;
    }
  }
  return new_chunk(Chunk::usual_bytes);
}

void give_chunk(Chunk* chunk) noexcept {
  if (chunk->bytes == Chunk::usual_bytes) {
    FreeChunks& chunks = free_chunks();
    SpinGuard guard(chunks.lock);
    if (chunks.count < most_free_chunks) {
      chunk->next = chunks.first;
      chunks.first = chunk;
      ++chunks.count;
      return;
    }
  }
  std::free(chunk);
}

}  // namespace weir::cpu
