// Large copies and fills that do not read what they overwrite: stores past the caches, where the processor has them.
#pragma once

#include <cstddef>

namespace weir::cpu {

/// Copies one piece of a copy of `whole` bytes: past the caches only if the whole would not stay in them.
void copy_streaming(std::byte* to, const std::byte* from, std::size_t bytes, std::size_t whole);
/// Fills dense elements through the caches: the pattern is laid once and then doubled.
void fill_dense(std::byte* to, std::size_t bytes, const std::byte* value, std::size_t element_bytes);
/// Fills a piece with a pattern; the piece begins and ends between elements.
void fill_streaming(std::byte* to, std::size_t bytes, const std::byte* value, std::size_t element_bytes,
                    std::size_t whole);

}  // namespace weir::cpu
