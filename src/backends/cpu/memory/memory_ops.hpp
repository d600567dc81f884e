// Copies and fills of elements in memory: strided ones collapsed to rows, large ones past the caches and on all workers.
#pragma once

#include <cstddef>

#include <weir/op.hpp>

#include "backends/cpu/workers/worker_pool.hpp"

namespace weir::cpu {

/// The row-major layout without gaps.
Layout dense_layout(const Shape& shape, std::size_t element_bytes);

/// On this thread alone.
void copy_elements(void* to, const Layout& to_layout, const void* from, const Layout& from_layout);
/// With the pool's help.
void copy_elements(WorkerPool& pool, Runner& runner, void* to, const Layout& to_layout, const void* from,
                   const Layout& from_layout);
void fill_elements(WorkerPool& pool, Runner& runner, void* to, const Layout& layout, const void* value);

}  // namespace weir::cpu
