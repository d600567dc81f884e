// Layouts of copies and fills, brought to the simplest form.
#pragma once

#include <array>
#include <cstddef>

#include <weir/op.hpp>

#include "backends/cuda/memory/strided_kernels.hpp"

namespace weir::cuda {

/// Two layouts with dimensions merged wherever both sides allow it: runs of `run` bytes over `rank` outer dimensions, the
/// last one fastest.
struct Rows {
  std::size_t run = 0;
  std::size_t rank = 0;
  std::array<std::size_t, max_rank> size{};
  std::array<std::ptrdiff_t, max_rank> to{};
  std::array<std::ptrdiff_t, max_rank> from{};

  std::size_t count() const;
};

Rows merge(const Layout& to, const Layout& from);
/// A row-major layout without gaps.
Layout dense_layout(const Shape& shape, std::size_t element_bytes);
bool is_dense(const Layout& layout);

/// The job of a kernel, and the size of its units: the largest that divides every run, stride and address.
StridedJob job_of(const Rows& rows, void* to, const void* from, std::size_t most_unit, std::size_t& unit);

/// By this thread, between host memories.
void copy_by_host(void* to, const Layout& to_layout, const void* from, const Layout& from_layout);
void fill_by_host(void* to, const Layout& layout, const void* value);

}  // namespace weir::cuda
