// The tool's kernels, behind functions: work.cpp is the one source of the tool that a device compiler has to meet.
#pragma once

#include <cstddef>
#include <cstdint>

#include <weir/array.hpp>
#include <weir/stream.hpp>

namespace tool {

/// z = x + y
void add(weir::StreamRef stream, const weir::Slice<double>& x, const weir::Slice<double>& y,
         const weir::Slice<double>& z);

/// Elements of one block's partial sum.
inline constexpr std::size_t partial_chunk = 4096;
/// partial[b] = the sum of block b's part of `a`: blocks that share memory, as in the article.
void partial_reduce(weir::StreamRef stream, const weir::Slice<double>& a, const weir::Slice<double>& partial);
/// sum[0] = the sum of `partial`, by one thread.
void single_thread_sum(weir::StreamRef stream, const weir::Slice<double>& partial, const weir::Slice<double>& sum);
/// a = a / sum[0]
void divide_by(weir::StreamRef stream, const weir::Slice<double>& a, const weir::Slice<double>& sum);

/// One step of heat: each element of `to` is the mean of its four neighbours in `from`, which has one more row at either end.
/// The first and the last column stay as they are.
void diffuse(weir::StreamRef stream, const weir::Slice<double>& from, const weir::Slice<double>& to);

/// A few rounds of arithmetic that cannot be shortened.
WEIR_KERNEL constexpr std::uint32_t mix(std::uint32_t value, std::uint32_t rounds) {
  for (std::uint32_t round = 0; round < rounds; ++round) {
    value = value * 1664525u + 1013904223u;
    value ^= value >> 15;
  }
  return value;
}
/// state = 31 * state + mix(batch): the result depends on every batch and on their order.
void digest(weir::StreamRef stream, const weir::Slice<std::uint32_t>& batch, const weir::Slice<std::uint32_t>& state,
            std::uint32_t rounds);

/// Pinned memory that kernels and the host mark in: a ticket counter, a gate, and a slot for each mark.
struct Board {
  std::uint32_t* cells;

  static constexpr std::size_t tickets = 0;
  static constexpr std::size_t gate = 1;
  static constexpr std::size_t first_slot = 2;
};
/// Writes the next ticket to a slot.
void mark(weir::StreamRef stream, Board board, std::size_t slot);
/// Marks, waits until the gate is open, and marks again.
void hold(weir::StreamRef stream, Board board, std::size_t begin_slot, std::size_t end_slot);

/// A kernel that throws (on the CPU; a GPU's kernels cannot).
void fail(weir::StreamRef stream);
inline constexpr const char* failing_kernel = "fails on purpose";

/// Reverses each run of `threads` elements through the shared memory of a block.
void reverse_runs(weir::StreamRef stream, const weir::Slice<std::uint32_t>& a, std::uint32_t threads);

}  // namespace tool
