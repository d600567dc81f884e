// Blocks of a pool by address. The links lie in the blocks: neither adding nor removing one allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace weir::cpu {

/// B has `void* data` and `B* chain`. Guarded by whoever has it.
template <class B>
class BlockIndex {
 public:
  using Table = std::vector<B*>;

  bool empty() const { return count_ == 0; }
  B* find(const void* data) const {
    if (table_.empty()) return nullptr;
    B* block = table_[slot(data, table_)];
    while (block != nullptr && block->data != data) block = block->chain;
    return block;
  }
  /// The size that the table should have for one block more; 0 if it has it. Without it lists are long, and all is right.
  std::size_t wanted_size() const { return count_ < table_.size() ? 0 : count_ < 64 ? 64 : 2 * table_.size(); }
  /// `larger`: empty lists; takes the place of the table, which is the caller's then.
  void grow(Table& larger) {
    for (B* block : table_) {
      while (block != nullptr) link(*std::exchange(block, block->chain), larger);
    }
    table_.swap(larger);
  }
  /// The table is not empty.
  void add(B& block) {
    link(block, table_);
    ++count_;
  }
  void remove(B& block) {
    B** at = &table_[slot(block.data, table_)];
    while (*at != &block) at = &(*at)->chain;
    *at = block.chain;
    --count_;
  }

 private:
  static std::size_t slot(const void* data, const Table& table) {
    const std::uint64_t mixed = (reinterpret_cast<std::uintptr_t>(data) >> 8) * 0x9e3779b97f4a7c15u;
    return static_cast<std::size_t>(mixed >> 32) & (table.size() - 1);
  }
  static void link(B& block, Table& table) {
    B*& first = table[slot(block.data, table)];
    block.chain = first;
    first = &block;
  }

  Table table_;
  std::size_t count_ = 0;
};

}  // namespace weir::cpu
