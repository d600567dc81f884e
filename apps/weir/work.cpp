// The tool's kernels.
#include "work.hpp"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <weir/launch.hpp>

namespace tool {

namespace {

using weir::Block;
using weir::View;

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, View<const double> x, View<const double> y, View<double> z) const {
    z[i] = x[i] + y[i];
  }
};

struct Diffuse {
  WEIR_KERNEL void operator()(weir::Index<2> at, View<const double, 2> from, View<double, 2> to) const {
    const std::size_t row = at[0], column = at[1];
    if (column == 0 || column + 1 == to.size(1)) {
      to(row, column) = from(row + 1, column);
    } else {
      to(row, column) = 0.25 * ((from(row, column) + from(row + 2, column)) +
                                (from(row + 1, column - 1) + from(row + 1, column + 1)));
    }
  }
};

constexpr std::uint32_t reduce_threads = 256;

struct PartialReduce {
  WEIR_KERNEL void operator()(Block& block, View<const double> a, View<double> partial) const {
    const std::size_t begin = block.index() * partial_chunk;
    const std::size_t end = begin + partial_chunk < a.size() ? begin + partial_chunk : a.size();
    const std::size_t threads = block.threads();
    const View<double> sums = block.shared<double>(threads);
    // The same number of steps for every thread, so that a CPU's compiler vectorises the phase; then what is left over.
    const std::size_t steps = end > begin ? (end - begin) / threads : 0;
    block.each([&](std::size_t thread) {
      double sum = 0;
      for (std::size_t step = 0; step < steps; ++step) sum += a[begin + step * threads + thread];
      sums[thread] = sum;
    });
    block.each([&](std::size_t thread) {
      const std::size_t last = begin + steps * threads + thread;
      if (last < end) sums[thread] += a[last];
    });
    for (std::size_t half = threads / 2; half > 0; half /= 2) {
      block.each([&](std::size_t thread) {
        if (thread < half) sums[thread] += sums[thread + half];
      });
    }
    block.each([&](std::size_t thread) {
      if (thread == 0) partial[block.index()] = sums[0];
    });
  }
};

struct SingleThreadSum {
  WEIR_KERNEL void operator()(std::size_t, View<const double> partial, View<double> sum) const {
    double total = 0;
    for (std::size_t i = 0; i < partial.size(); ++i) total += partial[i];
    sum[0] = total;
  }
};

struct DivideBy {
  WEIR_KERNEL void operator()(std::size_t i, View<double> a, View<const double> sum) const { a[i] /= sum[0]; }
};

struct Digest {
  WEIR_KERNEL void operator()(std::size_t i, View<const std::uint32_t> batch, View<std::uint32_t> state,
                              std::uint32_t rounds) const {
    state[i] = state[i] * 31 + mix(batch[i], rounds);
  }
};

WEIR_KERNEL void take_ticket(Board board, std::size_t slot) {
#if defined(__CUDA_ARCH__)
  const std::uint32_t ticket = atomicAdd_system(board.cells + Board::tickets, 1u) + 1;
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(board.cells + slot) = ticket;
  __threadfence_system();
#else
  const std::uint32_t ticket = std::atomic_ref(board.cells[Board::tickets]).fetch_add(1) + 1;
  std::atomic_ref(board.cells[slot]).store(ticket);
#endif
}

WEIR_KERNEL void pass_gate(Board board) {
#if defined(__CUDA_ARCH__)
  while (*static_cast<volatile std::uint32_t*>(board.cells + Board::gate) == 0) __nanosleep(1000);
#else
  while (std::atomic_ref(board.cells[Board::gate]).load() == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
#endif
}

struct Mark {
  WEIR_KERNEL void operator()(std::size_t, Board board, std::size_t slot) const { take_ticket(board, slot); }
};

struct Hold {
  WEIR_KERNEL void operator()(std::size_t, Board board, std::size_t begin_slot, std::size_t end_slot) const {
    take_ticket(board, begin_slot);
    pass_gate(board);
    take_ticket(board, end_slot);
  }
};

struct Fail {
  WEIR_KERNEL void operator()(std::size_t) const {
#if !defined(__CUDA_ARCH__)
    throw std::runtime_error("this kernel fails on purpose");
#endif
  }
};

struct ReverseRuns {
  WEIR_KERNEL void operator()(Block& block, View<std::uint32_t> a) const {
    const std::size_t threads = block.threads();
    const std::size_t begin = block.index() * threads;
    const View<std::uint32_t> run = block.shared<std::uint32_t>(threads);
    block.each([&](std::size_t thread) { run[thread] = a[begin + thread]; });
    block.each([&](std::size_t thread) { a[begin + thread] = run[threads - 1 - thread]; });
  }
};

}  // namespace

void add(weir::StreamRef stream, const weir::Slice<double>& x, const weir::Slice<double>& y,
         const weir::Slice<double>& z) {
  weir::launch(stream, z.size(), Add{}, weir::in(x), weir::in(y), weir::out(z));
}

void partial_reduce(weir::StreamRef stream, const weir::Slice<double>& a, const weir::Slice<double>& partial) {
  const weir::BlockExtent extent{.blocks = partial.size(),
                                 .threads = reduce_threads,
                                 .shared_bytes = reduce_threads * sizeof(double),
                                 .name = "partial_reduce"};
  weir::launch_blocks(stream, extent, PartialReduce{}, weir::in(a), weir::out(partial));
}

void single_thread_sum(weir::StreamRef stream, const weir::Slice<double>& partial, const weir::Slice<double>& sum) {
  weir::launch(stream, 1, SingleThreadSum{}, weir::in(partial), weir::out(sum));
}

void divide_by(weir::StreamRef stream, const weir::Slice<double>& a, const weir::Slice<double>& sum) {
  weir::launch(stream, a.size(), DivideBy{}, weir::inout(a), weir::in(sum));
}

void diffuse(weir::StreamRef stream, const weir::Slice<double>& from, const weir::Slice<double>& to) {
  weir::launch(stream, to.shape(), Diffuse{}, weir::in(from), weir::out(to));
}

void digest(weir::StreamRef stream, const weir::Slice<std::uint32_t>& batch, const weir::Slice<std::uint32_t>& state,
            std::uint32_t rounds) {
  weir::launch(stream, batch.size(), Digest{}, weir::in(batch), weir::inout(state), rounds);
}

// The board is passed by address, undeclared: it is how unordered streams are watched, not data that they share.
void mark(weir::StreamRef stream, Board board, std::size_t slot) { weir::launch(stream, 1, Mark{}, board, slot); }

void hold(weir::StreamRef stream, Board board, std::size_t begin_slot, std::size_t end_slot) {
  weir::launch(stream, 1, Hold{}, board, begin_slot, end_slot);
}

void fail(weir::StreamRef stream) { weir::launch(stream, weir::Extent{.size = 1, .name = failing_kernel}, Fail{}); }

void reverse_runs(weir::StreamRef stream, const weir::Slice<std::uint32_t>& a, std::uint32_t threads) {
  const weir::BlockExtent extent{.blocks = a.size() / threads,
                                 .threads = threads,
                                 .shared_bytes = threads * sizeof(std::uint32_t),
                                 .name = "reverse_runs"};
  weir::launch_blocks(stream, extent, ReverseRuns{}, weir::inout(a));
}

}  // namespace tool
