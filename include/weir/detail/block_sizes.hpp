// Places and sizes of blocks and threads, in one to three dimensions. For the library. Digestible by nvcc.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weir/shape.hpp>

namespace weir::detail {

/// How many blocks a launch has and how many threads each, in three dimensions: those that are not used come first, and are 1.
struct BlockSizes {
  std::uint64_t count;  ///< of blocks
  std::uint64_t blocks[3];
  std::uint32_t all_threads;  ///< of one block
  std::uint32_t threads[3];
};
/// Of at most three dimensions.
constexpr BlockSizes block_sizes(const Shape& blocks, const Shape& threads) {
  BlockSizes sizes{blocks.count(), {1, 1, 1}, static_cast<std::uint32_t>(threads.count()), {1, 1, 1}};
  for (std::size_t d = 0; d < blocks.rank(); ++d) sizes.blocks[3 - blocks.rank() + d] = blocks[d];
  for (std::size_t d = 0; d < threads.rank(); ++d) {
    sizes.threads[3 - threads.rank() + d] = static_cast<std::uint32_t>(threads[d]);
  }
  return sizes;
}
/// A number as an index of R dimensions; where there are more, the first of the index stands for several.
template <std::size_t R, class Size>
WEIR_KERNEL constexpr Index<R> index_in(const Size (&sizes)[3], Size number) {
  static_assert(R >= 1 && R <= 3, "blocks and their threads have 1 to 3 dimensions");
  Index<R> index{};
  for (std::size_t d = R - 1; d > 0; --d) {
    const Size size = sizes[3 - R + d];
    index.value[d] = number % size;
    number /= size;
  }
  index.value[0] = number;
  return index;
}
template <class Size, std::size_t R>
WEIR_KERNEL constexpr std::size_t number_in(const Size (&sizes)[3], const Index<R>& index) {
  static_assert(R >= 1 && R <= 3, "blocks and their threads have 1 to 3 dimensions");
  std::size_t number = index[0];
  for (std::size_t d = 1; d < R; ++d) number = number * sizes[3 - R + d] + index[d];
  return number;
}
template <std::size_t R, class Size>
WEIR_KERNEL constexpr Index<R> sizes_in(const Size (&sizes)[3]) {
  static_assert(R >= 1 && R <= 3, "blocks and their threads have 1 to 3 dimensions");
  Index<R> result{};
  for (std::size_t d = 0; d < R; ++d) result.value[d] = sizes[3 - R + d];
  for (std::size_t d = R; d < 3; ++d) result.value[0] *= sizes[d - R];
  return result;
}

}  // namespace weir::detail
