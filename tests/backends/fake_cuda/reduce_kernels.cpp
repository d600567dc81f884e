// In the place of reduce_kernels.cu: one block after the other, each of which gives its elements to all before any waits for others.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "back_off.hpp"
#include "backends/cuda/collectives/reduce_parts.hpp"
#include "backends/cuda/cuda_error.hpp"
#include "backends/fake_cuda/kernels.hpp"

namespace weir::cuda {

namespace {

template <class T>
void give(const BoxPart<T>& part) {
  const BoxReduce& share = part.share;
  for (std::uint32_t other = 0; other < share.ranks; ++other) {
    if (other == share.rank) continue;
    std::memcpy(part.elements(other, share.rank), part.from, part.count * sizeof(T));
    std::atomic_ref(part.come(other, share.rank)).store(part.called(), std::memory_order_release);
  }
}

bool is_stopped(const BoxReduce& share) {
  return std::atomic_ref(const_cast<std::uint32_t&>(*share.stop)).load(std::memory_order_relaxed) == share.stop_at;
}

bool wait_for(std::uint64_t& come, std::uint64_t called, const BoxReduce& share) {
  for (unsigned looks = 0; std::atomic_ref(come).load(std::memory_order_acquire) != called; ++looks) {
    if (is_stopped(share)) return false;
    detail::back_off(looks);
  }
  return true;
}

/// False: nobody is to wait for what has not come.
template <class T>
bool take(const BoxPart<T>& part) {
  const BoxReduce& share = part.share;
  for (std::uint32_t other = 0; other < share.ranks; ++other) {
    if (other != share.rank && !wait_for(part.come(share.rank, other), part.called(), share)) return false;
  }
  for (std::uint32_t i = 0; i < part.count; ++i) part.to[i] = reduced(part, i);
  part.head(share.rank).calls = part.call;
  return true;
}

/// One whose stream has failed waits until it is stopped.
bool gives_nothing(const BoxReduce& share) {
  if (!fake_cuda::skipped(share.guard)) return false;
  for (unsigned looks = 0; !is_stopped(share); ++looks) detail::back_off(looks);
  return true;
}

/// `part_at`: of an element's type, what a block does.
template <class F>
void run_blocks(const BoxReduce& share, unsigned blocks, F&& part_at) {
  if (gives_nothing(share)) return;
  with_element(share.type, [&](auto element) {
    for (unsigned block = 0; block < blocks; ++block) give(part_at(element, block));
    for (unsigned block = 0; block < blocks; ++block) {
      if (!take(part_at(element, block))) return;
    }
  });
}

void box_reduce(const fake_cuda::Dimensions& dimensions, void** arguments) {
  const auto& share = *static_cast<const BoxReduce*>(arguments[0]);
  run_blocks(share, dimensions.grid[0],
             [&](auto element, unsigned block) { return BoxPart<decltype(element)>(share, block); });
}

void box_reduces(const fake_cuda::Dimensions& dimensions, void** arguments) {
  const auto& all = *static_cast<const BoxReduces*>(arguments[0]);
  run_blocks(all.common, dimensions.grid[0],
             [&](auto element, unsigned block) { return part_of<decltype(element)>(all, block); });
}

/// Whatever a block gives at once is given before it waits for others.
template <class T>
bool run_row(const BoxReduces& all, unsigned blocks) {
  for (std::uint32_t i = 0, given = 0; i < all.pieces; ++i) {
    const auto part_at = [&](std::uint32_t call, unsigned block, std::uint32_t ahead) {
      return BoxPart<T>(all.common, block, all.piece[call], block, ahead);
    };
    const std::uint32_t first = i;
    for (const std::uint32_t end = given == i ? i + given_at_once<T>(all, i, 0) : given; given < end; ++given) {
      give(part_at(given, 0, given - first));
    }
    for (unsigned block = 1; block < blocks; ++block) {
      if (given_at_once<T>(all, i, block) != 0) give(part_at(i, block, 0));
    }
    for (unsigned block = 0; block < blocks; ++block) {
      if (given_at_once<T>(all, i, block) != 0 && !take(part_at(i, block, 0))) return false;
    }
  }
  return true;
}

void box_row(const fake_cuda::Dimensions& dimensions, void** arguments) {
  const auto& all = *static_cast<const BoxReduces*>(arguments[0]);
  if (gives_nothing(all.common)) return;
  with_element(all.common.type, [&](auto element) { return run_row<decltype(element)>(all, dimensions.grid[0]); });
}

std::atomic<int> launches{0};

CUfunc_st kernel{"box_reduce", 1, {sizeof(BoxReduce), 0, 0, 0}, &box_reduce};
CUfunc_st kernel_of_several{"box_reduces", 1, {sizeof(BoxReduces), 0, 0, 0}, &box_reduces};
CUfunc_st kernel_of_row{"box_row", 1, {sizeof(BoxReduces), 0, 0, 0}, &box_row};

cudaError_t launch_several(CUfunc_st& function, BoxBlocks whose, const BoxReduce& common,
                           std::span<const BoxPiece> pieces, int device, cudaStream_t stream) {
  BoxReduces all;
  const BoxGrid grid = grid_of(common, pieces, whose, all);
  void* arguments[] = {&all};
  launches.fetch_add(1, std::memory_order_relaxed);
  const DeviceScope scope(device);
  return cudaLaunchKernel(&function, dim3(grid.blocks), dim3(256), arguments, 0, stream);
}

}  // namespace

cudaError_t launch_box_reduce(const BoxReduce& share, int device, cudaStream_t stream) {
  void* arguments[] = {const_cast<BoxReduce*>(&share)};
  launches.fetch_add(1, std::memory_order_relaxed);
  const DeviceScope scope(device);
  return cudaLaunchKernel(&kernel, dim3(blocks_of(share)), dim3(256), arguments, 0, stream);
}

cudaError_t launch_box_reduces(const BoxReduce& common, std::span<const BoxPiece> pieces, int device,
                               cudaStream_t stream) {
  return launch_several(kernel_of_several, BoxBlocks::of_each, common, pieces, device, stream);
}

cudaError_t launch_box_row(const BoxReduce& common, std::span<const BoxPiece> pieces, int device, cudaStream_t stream) {
  return launch_several(kernel_of_row, BoxBlocks::same, common, pieces, device, stream);
}

cudaError_t load_reduce_kernels(int) { return cudaSuccess; }

}  // namespace weir::cuda

/// How many were launched, for tests of processes.
extern "C" int fake_box_reduces() { return weir::cuda::launches.load(); }
