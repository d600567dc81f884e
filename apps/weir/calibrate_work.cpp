// The kernels of `weir calibrate`.
#include "calibrate_work.hpp"

#include <weir/atomic.hpp>
#include <weir/launch.hpp>

namespace tool {

namespace {

using weir::Block;
using weir::View;

struct Spin {
  WEIR_KERNEL void operator()(Block& block, std::int64_t ns) const {
    if (ns == 0) return;
    block.each([&](std::size_t thread) {
      if (thread != 0) return;
      const std::int64_t end = weir::device_clock() + ns;
      while (weir::device_clock() < end) {
      }
    });
  }
};

struct Move {
  WEIR_KERNEL void operator()(Block& block, View<const Quad> from, View<Quad> to, std::size_t count) const {
    const std::size_t step = block.count() * block.threads();
    block.each([&](std::size_t thread) {
      std::size_t i = block.index() * block.threads() + thread;
      // Four loads are on their way at once: one thread alone could not keep the memory busy.
      for (; i + 3 * step < count; i += 4 * step) {
        const Quad a = from[i], b = from[i + step], c = from[i + 2 * step], d = from[i + 3 * step];
        to[i] = a;
        to[i + step] = b;
        to[i + 2 * step] = c;
        to[i + 3 * step] = d;
      }
      for (; i < count; i += step) to[i] = from[i];
    });
  }
};

}  // namespace

void spin(weir::StreamRef stream, std::int64_t ns, std::size_t blocks, std::uint32_t threads) {
  weir::launch_blocks(stream, weir::BlockExtent{.blocks = blocks, .threads = threads, .name = spin_kernel}, Spin{}, ns);
}

void move(weir::StreamRef stream, const weir::Array<Quad>& from, const weir::Array<Quad>& to, std::size_t count,
          std::size_t blocks, std::uint32_t threads) {
  weir::launch_blocks(stream, weir::BlockExtent{.blocks = blocks, .threads = threads, .name = move_kernel}, Move{},
                      weir::in(from), weir::out(to), count);
}

}  // namespace tool
