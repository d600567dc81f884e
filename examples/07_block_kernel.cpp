// A cooperative kernel: the threads of a block share memory and go on in phases, here to add up a part of an array.
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

constexpr std::uint32_t threads = 128;

struct PartialSum {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> x, weir::View<float> partial) const {
    // Shared memory belongs to the block. It holds anything at first.
    const weir::View<float> shared = block.shared<float>(block.threads());

    // Each block adds up a part of its own.
    const std::size_t length = (x.size() + block.count() - 1) / block.count();
    const std::size_t begin = block.index() * length;
    const std::size_t end = begin + length < x.size() ? begin + length : x.size();

    // Each call of each() is one phase: all threads have finished it before the next begins. Here each step is a phase, in
    // which neighbours read neighbours: a GPU reads their elements at once, and a CPU, where one core runs the threads of
    // a block one after the other, reads memory in its order. A loop inside of the phase, with which threads of CUDA kernels
    // stride through an array, is as fast on a GPU, but several times slower on a CPU (docs/blocks.md).
    block.each([&](std::size_t thread) { shared[thread] = 0.0f; });
    for (std::size_t first = begin; first < end; first += block.threads()) {
      block.each([&](std::size_t thread) {
        if (first + thread < end) shared[thread] += x[first + thread];
      });
    }

    // A tree, phase by phase. `block.reduce(...)` does it in one call, and more is in docs/blocks.md.
    for (std::size_t half = block.threads() / 2; half > 0; half /= 2) {
      block.each([&](std::size_t thread) {
        if (thread < half) shared[thread] += shared[thread + half];
      });
    }

    block.each([&](std::size_t thread) {
      if (thread == 0) partial[block.index()] = shared[0];
    });
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1'000'001;
  constexpr std::size_t blocks = 64;

  weir::Stream stream(device);
  const auto x = weir::ones<float>(stream, n);
  auto partial = weir::empty<float>(stream, blocks);
  weir::launch_blocks(stream, {.blocks = blocks, .threads = threads, .shared_bytes = threads * sizeof(float)},
                      PartialSum{}, weir::in(x), weir::out(partial));

  double sum = 0.0;
  for (float part : partial.to_host()) sum += part;

  std::printf("%s: the sum of %zu ones, from %zu blocks of %u threads, is %.0f\n", device.name().c_str(), n, blocks,
              threads, sum);
  return sum == static_cast<double>(n) ? 0 : 1;
}
