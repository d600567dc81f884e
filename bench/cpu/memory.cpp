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

  const auto our_copy = [&] {
    weir::copy(stream, to, from);
    stream.synchronize();
  };
  const auto our_fill = [&] {
    weir::fill(stream, to, 1.0f);
    stream.synchronize();
  };
  const auto raw_copy = [&] { raw::copy(to.data(), from.data(), bytes); };
  const auto raw_fill = [&] { raw::fill(to.data(), 0x3f, bytes); };
  const auto rates = [&](double filled, auto&& raw, auto&& ours) {
    const auto rate = [&](auto&& work) { return 1e-9 * filled * static_cast<double>(bytes) / seconds(work); };
    return by_turns(
        context.options, [&] { return rate(raw); }, [&] { return rate(ours); });
  };
  const Pair both = rates(
      2,
      [&] {
        raw_copy();
        raw_fill();
      },
      [&] {
        our_copy();
        our_fill();
      });
  context.report.add({"B10", "copy and fill 256 MiB", "GB/s", both.ours, both.raw, {ratio_at_least(1.1)}});
  const Pair copies = rates(1, raw_copy, our_copy);
  context.report.add({"B10.copy", "the copy alone", "GB/s", copies.ours, copies.raw, {}});
  const Pair fills = rates(1, raw_fill, our_fill);
  context.report.add({"B10.fill", "the fill alone", "GB/s", fills.ours, fills.raw, {}});
}

}  // namespace bench
