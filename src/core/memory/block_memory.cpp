// The memory of cooperative blocks on the CPU.
#include <weir/block.hpp>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>

#include <weir/error.hpp>

namespace weir::detail {

namespace {

constexpr std::size_t arena_alignment = 64;
constexpr std::size_t smallest_arena = 4096;

std::size_t align_up(std::size_t value, std::size_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

}  // namespace

BlockMemory::~BlockMemory() {
  release_spills();
  std::free(shared_.data);
  std::free(private_.data);
}

void BlockMemory::release_spills() {
  while (spills_ != nullptr) release_first_spill();
}

void BlockMemory::release_first_spill() {
  Spill* spill = spills_;
  spills_ = spill->next;
  spilled_ -= spill->bytes;
  std::free(spill);
}

void BlockMemory::begin_block(std::size_t shared_bytes) {
  release_spills();
  private_.used = 0;
  if (most_private_ > private_.capacity) {
    std::free(private_.data);
    private_ = {};
  }
  shared_.used = 0;
  shared_limit_ = shared_bytes;
  if (shared_.capacity >= shared_bytes) return;
  std::free(shared_.data);
  shared_.capacity = align_up(shared_bytes < smallest_arena ? smallest_arena : shared_bytes, arena_alignment);
  shared_.data = static_cast<std::byte*>(std::aligned_alloc(arena_alignment, shared_.capacity));
  if (shared_.data == nullptr) {
    shared_.capacity = 0;
    throw std::bad_alloc();
  }
}

void* BlockMemory::take_shared(std::size_t bytes, std::size_t alignment) {
  const std::size_t at = align_up(shared_.used, alignment);
  if (at > shared_limit_ || bytes > shared_limit_ - at) {
    throw Error(Errc::invalid_value, "weir::Block::shared", std::to_string(bytes) + " bytes",
                "the launch has " + std::to_string(shared_limit_) + " shared bytes for each block, " +
                    std::to_string(at) + " are taken",
                {});
  }
  shared_.used = at + bytes;
  return shared_.data + at;
}

void* BlockMemory::take_private(std::size_t bytes, std::size_t alignment) {
  const std::size_t at = align_up(private_.used, alignment);
  if (at + spilled_ + bytes > most_private_) most_private_ = at + spilled_ + bytes;
  if (at + bytes <= private_.capacity) {
    private_.used = at + bytes;
    return private_.data + at;
  }
  if (private_.used == 0) {
    // Nothing of this block lies in the arena: it can grow.
    std::free(private_.data);
    private_.capacity = align_up(2 * bytes + smallest_arena + most_private_, arena_alignment);
    private_.data = static_cast<std::byte*>(std::aligned_alloc(arena_alignment, private_.capacity));
    if (private_.data == nullptr) {
      private_.capacity = 0;
      throw std::bad_alloc();
    }
    private_.used = bytes;
    return private_.data;
  }
  auto* memory =
      static_cast<std::byte*>(std::aligned_alloc(arena_alignment, align_up(bytes + arena_alignment, arena_alignment)));
  if (memory == nullptr) throw std::bad_alloc();
  auto* spill = ::new (memory) Spill{spills_, bytes + alignment};
  spills_ = spill;
  spilled_ += spill->bytes;
  return memory + arena_alignment;
}

void BlockMemory::give_private(void* data) noexcept {
  auto* memory = static_cast<std::byte*>(data);
  if (spills_ != nullptr && reinterpret_cast<std::byte*>(spills_) + arena_alignment == memory) {
    release_first_spill();
  } else if (std::less_equal<>()(private_.data, memory) && std::less<>()(memory, private_.data + private_.used)) {
    private_.used = static_cast<std::size_t>(memory - private_.data);
  }
}

void refuse_thread(std::size_t thread, std::size_t threads) {
  throw Error(Errc::invalid_value, "weir::Block::broadcast", "thread " + std::to_string(thread),
              "the block has " + std::to_string(threads) + " threads", {});
}

}  // namespace weir::detail
