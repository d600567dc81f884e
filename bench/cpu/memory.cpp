// B9 and B10: memory in stream order: allocation, copies and fills, beside memcpy and memset on all cores.
#include <limits>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"

namespace bench {

void pool(Context& context) {
  const weir::Stream stream(context.device);
  const weir::Pool pool(context.device, {.release_threshold = std::numeric_limits<std::size_t>::max()});
  constexpr std::size_t bytes = 1 << 20;
  const std::size_t count = context.options.cut(200'000);
  const auto figure = [&](auto&& once) {
    return repeat(context.options, [&] {
      const double time = seconds([&] {
        for (std::size_t i = 0; i < count; ++i) once();
        stream.synchronize();
      });
      return time / static_cast<double>(count) * 1e6;
    });
  };
  const Spread raw_pointers = figure([&] { pool.free(stream, pool.allocate(stream, bytes)); });
  context.report.add({"B9", "allocate and free 1 MiB, pool", "us", raw_pointers, {}, {at_most(0.10, "us")}});
  const Spread arrays = figure([&] { weir::empty<std::byte>(stream, bytes, pool); });
  context.report.add({"B9.array", "the same by weir::empty", "us", arrays, {}, {}});
}

void copy_and_fill(Context& context) {
  const weir::Stream stream(context.device);
  constexpr std::size_t bytes = 256 << 20;
  const std::size_t n = bytes / sizeof(float);
  const auto from = weir::full(stream, n, 1.0f);
  const auto to = weir::full(stream, n, 0.0f);
  stream.synchronize();

  const auto rate = [&](auto&& work) { return 1e-9 * static_cast<double>(bytes) / seconds(work); };
  const Pair copies = by_turns(
      context.options, [&] { return rate([&] { raw::copy(to.data(), from.data(), bytes); }); },
      [&] {
        return rate([&] {
          weir::copy(stream, to, from);
          stream.synchronize();
        });
      });
  const Pair fills = by_turns(
      context.options, [&] { return rate([&] { raw::fill(to.data(), 0x3f, bytes); }); },
      [&] {
        return rate([&] {
          weir::fill(stream, to, 1.0f);
          stream.synchronize();
        });
      });
  context.report.add({"B10.copy", "copy 256 MiB", "GB/s", copies.ours, copies.raw, {ratio_at_least(1.1)}});
  context.report.add({"B10.fill", "fill 256 MiB", "GB/s", fills.ours, fills.raw, {ratio_at_least(1.1)}});
  const bool copy_is_worse = copies.ours.median / copies.raw.median < fills.ours.median / fills.raw.median;
  const Pair& worse = copy_is_worse ? copies : fills;
  context.report.add({"B10",
                      copy_is_worse ? "the worse of both: copy" : "the worse of both: fill",
                      "GB/s",
                      worse.ours,
                      worse.raw,
                      {ratio_at_least(1.1)}});
}

}  // namespace bench
