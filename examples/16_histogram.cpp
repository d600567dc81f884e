// Atomic operations, and how to need few of them: each block counts for itself, and adds what it has counted once.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

constexpr std::size_t bins = 256;
constexpr std::uint32_t threads = 256;

/// Every value changes a place that all threads share: right, and slow, since they meet there.
struct CountTogether {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const std::uint32_t> values,
                              weir::View<std::uint32_t> counts) const {
    weir::atomic_add(counts[values[i] % bins], 1);
  }
};

/// A block has counters of its own in shared memory. Other threads of the block meet there, other blocks do not.
struct CountByBlock {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const std::uint32_t> values,
                              weir::View<std::uint32_t> counts) const {
    const weir::View<std::uint32_t> own = block.shared<std::uint32_t>(bins);
    block.each([&](std::size_t thread) {
      for (std::size_t b = thread; b < bins; b += block.threads()) own[b] = 0;
    });
    // A part for each block, and each step a phase, so that a CPU reads memory in its order (docs/blocks.md).
    const std::size_t length = (values.size() + block.count() - 1) / block.count();
    const std::size_t begin = block.index() * length;
    const std::size_t end = begin + length < values.size() ? begin + length : values.size();
    for (std::size_t first = begin; first < end; first += block.threads()) {
      block.each([&](std::size_t thread) {
        if (first + thread < end) weir::atomic_add(own[values[first + thread] % bins], 1);
      });
    }
    block.each([&](std::size_t thread) {
      for (std::size_t b = thread; b < bins; b += block.threads()) weir::atomic_add(counts[b], own[b]);
    });
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1'000'003;
  std::vector<std::uint32_t> values(n), expected(bins);
  std::uint32_t state = 1;
  for (std::uint32_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = state >> 16;
    ++expected[value % bins];
  }

  weir::Stream stream(device);
  const auto x = weir::from(stream, values);
  auto together = weir::zeros<std::uint32_t>(stream, bins);
  auto by_block = weir::zeros<std::uint32_t>(stream, bins);
  weir::launch(stream, n, CountTogether{}, x, weir::inout(together));
  weir::launch_blocks(stream, {.blocks = 64, .threads = threads, .shared_bytes = bins * sizeof(std::uint32_t)},
                      CountByBlock{}, x, weir::inout(by_block));

  const bool right = together.to_host() == expected && by_block.to_host() == expected;
  std::printf("%s: %zu values in %zu bins, both ways %s\n", device.name().c_str(), n, bins, right ? "right" : "WRONG");
  return right ? 0 : 1;
}
