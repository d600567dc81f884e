// Merging dimensions; copies and fills by the host.
#include "backends/cuda/memory/layout.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace weir::cuda {

std::size_t Rows::count() const {
  std::size_t rows = 1;
  for (std::size_t d = 0; d < rank; ++d) rows *= size[d];
  return rows;
}

Rows merge(const Layout& to, const Layout& from) {
  Rows rows;
  rows.run = to.element_bytes;
  std::size_t d = to.shape.rank();
  const auto dense = [&](std::size_t dimension) {
    const auto run = static_cast<std::ptrdiff_t>(rows.run);
    return to.shape[dimension] == 1 || (to.stride[dimension] == run && from.stride[dimension] == run);
  };
  while (d > 0 && dense(d - 1)) rows.run *= to.shape[--d];
  for (std::size_t i = 0; i < d; ++i) {
    if (to.shape[i] == 1) continue;
    const auto steps = static_cast<std::ptrdiff_t>(to.shape[i]);
    const std::size_t last = rows.rank - 1;
    if (rows.rank > 0 && rows.to[last] == to.stride[i] * steps && rows.from[last] == from.stride[i] * steps) {
      rows.size[last] *= to.shape[i];
      rows.to[last] = to.stride[i];
      rows.from[last] = from.stride[i];
      continue;
    }
    rows.size[rows.rank] = to.shape[i];
    rows.to[rows.rank] = to.stride[i];
    rows.from[rows.rank] = from.stride[i];
    ++rows.rank;
  }
  return rows;
}

Layout dense_layout(const Shape& shape, std::size_t element_bytes) {
  Layout layout;
  layout.shape = shape;
  layout.element_bytes = element_bytes;
  auto stride = static_cast<std::ptrdiff_t>(element_bytes);
  for (std::size_t d = max_rank; d-- > 0;) {
    layout.stride[d] = stride;
    stride *= static_cast<std::ptrdiff_t>(shape[d]);
  }
  return layout;
}

bool is_dense(const Layout& layout) { return merge(layout, layout).rank == 0; }

StridedJob job_of(const Rows& rows, void* to, const void* from, std::size_t most_unit, std::size_t& unit) {
  std::uintptr_t all = rows.run | reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  for (std::size_t d = 0; d < rows.rank; ++d) {
    all |= static_cast<std::uintptr_t>(rows.to[d]) | static_cast<std::uintptr_t>(rows.from[d]);
  }
  unit = most_unit;
  while (all % unit != 0) unit /= 2;
  StridedJob job{};
  job.to = to;
  job.from = from;
  constexpr int last = StridedJob::most_dimensions - 1;
  std::fill_n(job.size, StridedJob::most_dimensions, 1);
  job.size[last] = rows.run / unit;
  job.to_stride[last] = job.from_stride[last] = static_cast<std::int64_t>(unit);
  for (std::size_t d = 0; d < rows.rank; ++d) {
    const std::size_t at = static_cast<std::size_t>(last) - rows.rank + d;
    job.size[at] = rows.size[d];
    job.to_stride[at] = rows.to[d];
    job.from_stride[at] = rows.from[d];
  }
  job.count = rows.count() * job.size[last];
  return job;
}

namespace {

/// Calls f(to offset, from offset) for each run.
template <class F>
void for_runs(const Rows& rows, F&& f) {
  std::array<std::size_t, max_rank> index{};
  const std::size_t count = rows.count();
  for (std::size_t run = 0; run < count; ++run) {
    std::ptrdiff_t to = 0;
    std::ptrdiff_t from = 0;
    for (std::size_t d = 0; d < rows.rank; ++d) {
      to += static_cast<std::ptrdiff_t>(index[d]) * rows.to[d];
      from += static_cast<std::ptrdiff_t>(index[d]) * rows.from[d];
    }
    f(to, from);
    for (std::size_t d = rows.rank; d-- > 0;) {
      if (++index[d] < rows.size[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace

void copy_by_host(void* to, const Layout& to_layout, const void* from, const Layout& from_layout) {
  const Rows rows = merge(to_layout, from_layout);
  for_runs(rows, [&](std::ptrdiff_t at, std::ptrdiff_t source) {
    std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + source, rows.run);
  });
}

void fill_by_host(void* to, const Layout& layout, const void* value) {
  const Rows rows = merge(layout, layout);
  for_runs(rows, [&](std::ptrdiff_t at, std::ptrdiff_t) {
    for (std::size_t done = 0; done < rows.run; done += layout.element_bytes) {
      std::memcpy(static_cast<char*>(to) + at + done, value, layout.element_bytes);
    }
  });
}

}  // namespace weir::cuda
