// What is in boxes, and how elements are folded: for kernels, and for tests that run them on the host.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <weir/shape.hpp>

#include "backends/cuda/collectives/reduce_kernels.hpp"

namespace weir::cuda {

/// What a block has of a box: this, whether elements have come, and then the elements.
struct alignas(64) BoxHead {
  std::uint32_t calls;
};
WEIR_KERNEL constexpr std::uint32_t calls_in_turn(std::size_t block) { return block == 0 ? 2 * most_ahead : 2; }
WEIR_KERNEL constexpr std::size_t box_head_bytes(std::size_t block) {
  return sizeof(BoxHead) + calls_in_turn(block) * most_box_ranks * sizeof(std::uint64_t);
}
/// Where a block's part begins.
WEIR_KERNEL constexpr std::size_t block_offset(std::size_t block, std::size_t ranks) {
  if (block == 0) return 0;
  const std::size_t first = box_head_bytes(0) + calls_in_turn(0) * ranks * box_part_bytes;
  return first + (block - 1) * (box_head_bytes(1) + calls_in_turn(1) * ranks * box_part_bytes);
}

/// What one block does of a call.
template <class T>
struct BoxPart {
  WEIR_KERNEL BoxPart(const BoxReduce& its_share, std::size_t its_block)
      : BoxPart(its_share, its_block, {its_share.from, its_share.to, its_share.count, its_share.key}, its_block) {}
  /// `at`: which of the piece's blocks it is. `ahead`: how many calls before it the block has yet to be through with.
  WEIR_KERNEL BoxPart(const BoxReduce& its_share, std::size_t its_block, const BoxPiece& piece, std::size_t at,
                      std::uint32_t ahead = 0)
      : share(its_share), block(its_block), key(piece.key) {
    const std::size_t left = piece.count - at * most;
    count = static_cast<std::uint32_t>(left < most ? left : most);
    from = static_cast<const T*>(piece.from) + at * most;
    to = static_cast<T*>(piece.to) + at * most;
    call = head(share.rank).calls + 1 + ahead;
  }
  WEIR_KERNEL BoxHead& head(std::uint32_t whose) const { return *reinterpret_cast<BoxHead*>(begin(whose)); }
  /// In the box of one rank what another one gives it.
  WEIR_KERNEL T* elements(std::uint32_t whose, std::uint32_t by) const {
    return reinterpret_cast<T*>(begin(whose) + box_head_bytes(block) + (turn() * share.ranks + by) * box_part_bytes);
  }
  /// Whether what a rank gives is there: then it is called().
  WEIR_KERNEL std::uint64_t& come(std::uint32_t whose, std::uint32_t by) const {
    return reinterpret_cast<std::uint64_t*>(begin(whose) + sizeof(BoxHead))[turn() * most_box_ranks + by];
  }
  WEIR_KERNEL std::uint64_t called() const { return std::uint64_t{key} << 32 | call; }

  static constexpr std::size_t most = box_part_bytes / sizeof(T);
  const BoxReduce& share;
  std::size_t block;
  std::uint32_t key;
  std::uint32_t count;
  const T* from;
  T* to;
  std::uint32_t call;

 private:
  WEIR_KERNEL std::size_t turn() const { return call % calls_in_turn(block); }
  WEIR_KERNEL char* begin(std::uint32_t whose) const {
    return static_cast<char*>(share.boxes[whose]) + block_offset(block, share.ranks);
  }
};

/// Of several calls' kernel: what the block does.
template <class T>
WEIR_KERNEL BoxPart<T> part_of(const BoxReduces& all, std::size_t block) {
  constexpr std::size_t most = BoxPart<T>::most;
  std::size_t at = block;
  for (std::uint32_t i = 0;; ++i) {
    const std::size_t blocks = (all.piece[i].count + most - 1) / most;
    if (at < blocks) return BoxPart<T>(all.common, block, all.piece[i], at);
    at -= blocks;
  }
}

/// Of a row: of how many of its calls from the i-th on the block gives at once. 0: it has nothing of the i-th one.
template <class T>
WEIR_KERNEL std::uint32_t given_at_once(const BoxReduces& row, std::uint32_t i, std::size_t block) {
  if (block != 0) return block * BoxPart<T>::most < row.piece[i].count ? 1 : 0;
  return row.pieces - i < most_ahead ? row.pieces - i : most_ahead;
}

/// What elements are folded as: sums of integers wrap, and short floats are folded as float and rounded each time.
template <class T>
struct Wide {
  using Type = T;
  WEIR_KERNEL static T of(T x) { return x; }
  WEIR_KERNEL static T narrow(T x) { return x; }
};
template <>
struct Wide<__half> {
  using Type = float;
  WEIR_KERNEL static float of(__half x) { return __half2float(x); }
  WEIR_KERNEL static __half narrow(float x) { return __float2half_rn(x); }
};
template <>
struct Wide<__nv_bfloat16> {
  using Type = float;
  WEIR_KERNEL static float of(__nv_bfloat16 x) { return __bfloat162float(x); }
  WEIR_KERNEL static __nv_bfloat16 narrow(float x) { return __float2bfloat16_rn(x); }
};

template <class W>
WEIR_KERNEL W fold(W a, W b, NcclOperation operation) {
  using Sum = std::conditional_t<std::is_integral_v<W>, std::uint64_t, W>;
  switch (operation) {
    case NcclOperation::product: return static_cast<W>(static_cast<Sum>(a) * static_cast<Sum>(b));
    case NcclOperation::minimum: return b < a ? b : a;
    case NcclOperation::maximum: return a < b ? b : a;
    default: return static_cast<W>(static_cast<Sum>(a) + static_cast<Sum>(b));
  }
}

template <class W>
WEIR_KERNEL W divide(W x, std::uint32_t by) {
  using Divisor = std::conditional_t<std::is_floating_point_v<W>, W,
                                     std::conditional_t<std::is_signed_v<W>, std::int64_t, std::uint64_t>>;
  return static_cast<W>(x / static_cast<Divisor>(by));
}

/// Element i of the result, once all ranks' elements are there: folded in the order of ranks.
template <class T>
WEIR_KERNEL T reduced(const BoxPart<T>& part, std::uint32_t i) {
  using W = Wide<T>;
  const BoxReduce& share = part.share;
  const auto given = [&](std::uint32_t by) {
    return (by == share.rank ? part.from : part.elements(share.rank, by))[i];
  };
  T sum = given(0);
  for (std::uint32_t by = 1; by < share.ranks; ++by) {
    sum = W::narrow(fold(W::of(sum), W::of(given(by)), share.operation));
  }
  return share.operation == NcclOperation::average ? W::narrow(divide(W::of(sum), share.ranks)) : sum;
}

/// Calls f with an object of the element's type.
template <class F>
auto with_element(NcclType type, F&& f) {
  switch (type) {
    case NcclType::i8: return f(std::int8_t{});
    case NcclType::u8: return f(std::uint8_t{});
    case NcclType::i32: return f(std::int32_t{});
    case NcclType::u32: return f(std::uint32_t{});
    case NcclType::i64: return f(std::int64_t{});
    case NcclType::u64: return f(std::uint64_t{});
    case NcclType::f16: return f(__half{});
    case NcclType::f64: return f(double{});
    case NcclType::bf16: return f(__nv_bfloat16{});
    default: return f(float{});
  }
}

inline std::size_t box_bytes(std::size_t ranks) { return block_offset(most_box_parts, ranks); }

/// How many elements one block has at most.
inline std::size_t part_elements(const BoxReduce& share) {
  return with_element(share.type, [](auto element) { return box_part_bytes / sizeof element; });
}
inline unsigned blocks_of(const BoxReduce& share) {
  return static_cast<unsigned>((share.count + part_elements(share) - 1) / part_elements(share));
}
/// Of several calls; and the elements that one block has at most.
struct BoxGrid {
  unsigned blocks = 0;
  std::size_t of_block = 0;
};
enum class BoxBlocks : bool { of_each, same };
inline BoxGrid grid_of(BoxReduce common, std::span<const BoxPiece> pieces, BoxBlocks whose, BoxReduces& all) {
  BoxGrid grid;
  all.common = common;
  all.pieces = static_cast<std::uint32_t>(pieces.size());
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    all.piece[i] = pieces[i];
    common.count = pieces[i].count;
    const unsigned blocks = blocks_of(common);
    grid.blocks = whose == BoxBlocks::same ? std::max(grid.blocks, blocks) : grid.blocks + blocks;
    grid.of_block = std::max(grid.of_block, std::min(common.count, part_elements(common)));
  }
  return grid;
}

}  // namespace weir::cuda
