// Copies and fills.
#include "backends/cpu/memory/memory_ops.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "backends/cpu/memory/streaming_stores.hpp"

namespace weir::cpu {

namespace {

constexpr std::size_t split_bytes = 128 * 1024;  ///< smaller work is done before a helper would have woken up
constexpr std::size_t piece_bytes = 1024 * 1024;

/// Two layouts with the dimensions that are dense on both sides merged: `rows` runs of `run` bytes.
struct Rows {
  std::size_t run = 0;
  std::size_t rows = 1;
  std::size_t outer = 0;  ///< dimensions above the run
  std::array<std::size_t, max_rank> size{};
  std::array<std::ptrdiff_t, max_rank> to{};
  std::array<std::ptrdiff_t, max_rank> from{};
};

Rows collapse(const Layout& to, const Layout& from) {
  Rows rows;
  rows.run = to.element_bytes;
  std::size_t d = to.shape.rank();
  const auto dense = [&](std::size_t dimension) {
    const auto run = static_cast<std::ptrdiff_t>(rows.run);
    return to.shape[dimension] == 1 || (to.stride[dimension] == run && from.stride[dimension] == run);
  };
  while (d > 0 && dense(d - 1)) rows.run *= to.shape[--d];
  rows.outer = d;
  for (std::size_t i = 0; i < d; ++i) {
    rows.size[i] = to.shape[i];
    rows.to[i] = to.stride[i];
    rows.from[i] = from.stride[i];
    rows.rows *= to.shape[i];
  }
  return rows;
}

/// Calls f(to offset, from offset) for rows begin..end.
template <class F>
void for_rows(const Rows& rows, std::size_t begin, std::size_t end, F&& f) {
  std::array<std::size_t, max_rank> index{};
  std::size_t rest = begin;
  for (std::size_t d = rows.outer; d-- > 0;) {
    index[d] = rest % rows.size[d];
    rest /= rows.size[d];
  }
  for (std::size_t row = begin; row < end; ++row) {
    std::ptrdiff_t to = 0;
    std::ptrdiff_t from = 0;
    for (std::size_t d = 0; d < rows.outer; ++d) {
      to += static_cast<std::ptrdiff_t>(index[d]) * rows.to[d];
      from += static_cast<std::ptrdiff_t>(index[d]) * rows.from[d];
    }
    f(to, from);
    for (std::size_t d = rows.outer; d-- > 0;) {
      if (++index[d] < rows.size[d]) break;
      index[d] = 0;
    }
  }
}

struct CopyJob {
  std::byte* to;
  const std::byte* from;
  Rows rows;
};

template <std::size_t Bytes>
void copy_small_rows(const CopyJob& job, std::size_t begin, std::size_t end) {
  for_rows(job.rows, begin, end,
           [&](std::ptrdiff_t to, std::ptrdiff_t from) { std::memcpy(job.to + to, job.from + from, Bytes); });
}

void copy_rows(const CopyJob& job, std::size_t begin, std::size_t end) {
  switch (job.rows.run) {
    case 1: return copy_small_rows<1>(job, begin, end);
    case 2: return copy_small_rows<2>(job, begin, end);
    case 4: return copy_small_rows<4>(job, begin, end);
    case 8: return copy_small_rows<8>(job, begin, end);
    case 16: return copy_small_rows<16>(job, begin, end);
    default:
      for_rows(job.rows, begin, end, [&](std::ptrdiff_t to, std::ptrdiff_t from) {
        std::memcpy(job.to + to, job.from + from, job.rows.run);
      });
  }
}

struct FillJob {
  std::byte* to;
  const std::byte* value;
  std::size_t element_bytes;
  Rows rows;
};

}  // namespace

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

void copy_elements(void* to, const Layout& to_layout, const void* from, const Layout& from_layout) {
  const CopyJob job{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), collapse(to_layout, from_layout)};
  copy_rows(job, 0, job.rows.rows);
}

void copy_elements(WorkerPool& pool, Runner& runner, void* to, const Layout& to_layout, const void* from,
                   const Layout& from_layout) {
  CopyJob job{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), collapse(to_layout, from_layout)};
  if (job.rows.rows * job.rows.run < split_bytes) {
    copy_rows(job, 0, job.rows.rows);
  } else if (job.rows.rows == 1) {
    const auto body = [](void* context, std::size_t begin, std::size_t end, Runner&) {
      const auto& c = *static_cast<const CopyJob*>(context);
      copy_streaming(c.to + begin, c.from + begin, end - begin, c.rows.run);
    };
    pool.run_split(body, &job, job.rows.run, piece_bytes, runner);
  } else {
    const auto body = [](void* context, std::size_t begin, std::size_t end, Runner&) {
      copy_rows(*static_cast<const CopyJob*>(context), begin, end);
    };
    pool.run_split(body, &job, job.rows.rows, piece_bytes / std::min(job.rows.run, piece_bytes) + 1, runner);
  }
}

void fill_elements(WorkerPool& pool, Runner& runner, void* to, const Layout& layout, const void* value) {
  FillJob job{static_cast<std::byte*>(to), static_cast<const std::byte*>(value), layout.element_bytes,
              collapse(layout, layout)};
  const auto rows = [](void* context, std::size_t begin, std::size_t end, Runner&) {
    const auto& f = *static_cast<const FillJob*>(context);
    for_rows(f.rows, begin, end,
             [&](std::ptrdiff_t at, std::ptrdiff_t) { fill_dense(f.to + at, f.rows.run, f.value, f.element_bytes); });
  };
  if (job.rows.rows * job.rows.run < split_bytes) {
    rows(&job, 0, job.rows.rows, runner);
  } else if (job.rows.rows == 1) {
    const auto elements = [](void* context, std::size_t begin, std::size_t end, Runner&) {
      const auto& f = *static_cast<const FillJob*>(context);
      fill_streaming(f.to + begin * f.element_bytes, (end - begin) * f.element_bytes, f.value, f.element_bytes,
                     f.rows.run);
    };
    pool.run_split(elements, &job, job.rows.run / job.element_bytes, piece_bytes / job.element_bytes + 1, runner);
  } else {
    pool.run_split(rows, &job, job.rows.rows, piece_bytes / std::min(job.rows.run, piece_bytes) + 1, runner);
  }
}

}  // namespace weir::cpu
