// What the threads of a block do together on a GPU (block_device.hpp), with a host thread for each thread of the block, and
// shuffles and barriers of ours: the same source, run where there is no GPU. ThreadSanitizer sees a missing barrier.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstring>
#include <deque>
#include <thread>
#include <vector>

namespace {

/// The block that runs, and the calling thread's number in it.
struct RunningBlock {
  struct Warp {
    explicit Warp(unsigned lanes) : all(static_cast<std::ptrdiff_t>(lanes)) {}
    std::barrier<> all;
    unsigned words[32] = {};
  };
  explicit RunningBlock(unsigned count) : threads(count), all(static_cast<std::ptrdiff_t>(count)) {
    for (unsigned first = 0; first < count; first += 32) warps.emplace_back(std::min(32u, count - first));
  }
  unsigned lanes() const;

  unsigned threads;
  std::barrier<> all;
  std::deque<Warp> warps;
  std::atomic<int> wrong_masks{0};
};
RunningBlock* block = nullptr;
thread_local unsigned own_thread = 0;

unsigned RunningBlock::lanes() const { return std::min(32u, threads - own_thread / 32 * 32); }

/// The word of another lane of the warp; of one that is not there, anything.
unsigned exchange(unsigned mask, unsigned word, unsigned from) {
  const unsigned lanes = block->lanes();
  if (mask != (lanes == 32 ? ~0u : (1u << lanes) - 1)) ++block->wrong_masks;
  RunningBlock::Warp& warp = block->warps[own_thread / 32];
  warp.words[own_thread % 32] = word;
  warp.all.arrive_and_wait();
  const unsigned found = from < lanes ? warp.words[from] : 0xdeadbeef;
  warp.all.arrive_and_wait();
  return found;
}

}  // namespace

// As CUDA has them; a shuffle from outside of the warp gives the lane its own word.
#define __CUDACC__ 1
#define __device__
#define __shared__ static
static void __syncthreads() { block->all.arrive_and_wait(); }
static unsigned __shfl_down_sync(unsigned mask, unsigned word, unsigned distance) {
  const unsigned lane = own_thread % 32;
  return exchange(mask, word, lane + distance < 32 ? lane + distance : lane);
}
static unsigned __shfl_up_sync(unsigned mask, unsigned word, unsigned distance) {
  const unsigned lane = own_thread % 32;
  return exchange(mask, word, lane >= distance ? lane - distance : lane);
}
using std::memcpy;
#include <weir/detail/block_device.hpp>
#undef __CUDACC__
#undef __device__
#undef __shared__

namespace {

/// x -> a x + b, in 12 bytes: one after the other is associative, and not commutative.
struct Affine {
  unsigned a, b, steps;
  friend bool operator==(const Affine&, const Affine&) = default;
};
Affine then(const Affine& first, const Affine& second) {
  return {second.a * first.a, second.a * first.b + second.b, first.steps + second.steps};
}
Affine step_of(unsigned i) { return {2 * i + 3, i * i + 1, 1}; }
float part_of(unsigned i) { return 1.0f / static_cast<float>(3 * i + 1); }

TEST(BlockDevice, threads_of_any_block_reduce_scan_and_broadcast_again_and_again) {
  using namespace weir::detail;
  for (const unsigned count : {1u, 2u, 5u, 31u, 32u, 33u, 70u}) {
    std::vector<Affine> sums, before;
    std::vector<float> tree;
    Affine sum{}, previous{7, 5, 0};
    for (unsigned i = 0; i < count; ++i) {
      before.push_back(previous);
      previous = then(previous, step_of(i));
      sum = i == 0 ? step_of(i) : then(sum, step_of(i));
      sums.push_back(sum);
      tree.push_back(part_of(i));
    }
    for (unsigned distance = 1; distance < count; distance *= 2) {
      for (unsigned i = 0; i + distance < count; i += 2 * distance) tree[i] += tree[i + distance];
    }
    RunningBlock running(count);
    block = &running;
    std::atomic<int> wrong{0};
    const auto run = [&](unsigned t) {
      own_thread = t;
      for (int round = 0; round < 2; ++round) {
        const bool right[] = {
            reduce_in_block<Affine>(step_of(t), t, count, then) == sums.back(),
            exclusive_scan_in_block<Affine>(step_of(t), Affine{7, 5, 0}, t, count, then) == before[t],
            scan_in_block<Affine>(step_of(t), t, count, then) == sums[t],
            reduce_in_block<float>(part_of(t), t, count, [](float a, float b) { return a + b; }) == tree[0],
            reduce_in_block<unsigned char>(t + 1 == count ? 9 : 1, t, count,
                                           [](unsigned char a, unsigned char b) { return std::max(a, b); }) == 9,
            broadcast_in_block<Affine>([&] { return step_of(t); }, t == count / 2) == step_of(count / 2),
            broadcast_in_block<Affine>([&] { return step_of(t); }, t == 0) == step_of(0),
        };
        wrong += static_cast<int>(std::count(std::begin(right), std::end(right), false));
      }
    };
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count; ++t) threads.emplace_back(run, t);
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong.load(), 0) << count << " threads";
    EXPECT_EQ(running.wrong_masks.load(), 0) << count << " threads";
  }
}

}  // namespace
