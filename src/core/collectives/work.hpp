// What a collective does to memory: elements folded over the ranks, or moved between them.
#pragma once

#include <cstddef>
#include <vector>

#include <weir/collectives.hpp>

namespace weir::detail {

/// Elements of one array, in row-major order from `first` on.
struct Elements {
  std::byte* data = nullptr;
  Layout layout = {};
  bool dense = true;
  std::size_t first = 0;

  Elements() = default;
  Elements(const CollectiveOperand& operand, std::size_t from);
  /// `count` elements from `at` on: where they are, or copied to `room`.
  const std::byte* read(std::size_t at, std::size_t count, std::byte* room) const;
  void write(std::size_t at, std::size_t count, const std::byte* from) const;
};

/// Sums up to sixteen bytes a thread's while, whatever the types. Immutable once it was made; run() by several threads.
class CollectiveWork {
 public:
  /// out[...] = in[0] op in[1] ..., all of `count` elements. Each output has its own part of the inputs if `scattered`.
  void fold(Reduction reduction, ElementKind kind, std::vector<Elements> in, std::vector<Elements> out,
            std::size_t count, bool scattered);
  /// Adds a move of elements of one size; none for those that are there already.
  void move(const Elements& from, const Elements& to, std::size_t count);

  std::size_t extent() const { return extent_; }
  std::size_t element_bytes() const { return element_bytes_; }
  void run(std::size_t begin, std::size_t end) const noexcept;

 private:
  using Fold = void (*)(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count);
  using Divide = void (*)(std::byte* to, std::size_t count, std::size_t by);
  struct Move {
    Elements from;
    Elements to;
    std::size_t begin;  ///< in the extent
    std::size_t count;
  };
  void fold_block(std::size_t at, std::size_t count) const noexcept;

  std::size_t extent_ = 0;
  std::size_t element_bytes_ = 1;
  std::vector<Elements> in_;
  std::vector<Elements> out_;
  std::size_t scattered_by_ = 0;  ///< elements of one output; 0: all have all
  Fold fold_ = nullptr;
  Divide divide_ = nullptr;
  std::vector<Move> moves_;
};

}  // namespace weir::detail
