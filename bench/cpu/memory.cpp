// B9 and B10: memory in stream order: allocation, copies and fills, beside memcpy and memset on all cores.
#include <cstring>
#include <limits>

#include <weir/weir.hpp>

#include "bench.hpp"
#include "raw/raw.hpp"

namespace bench {

void pool(Context& context) {
  const weir::Stream stream(context.device);
  const weir::Pool pool(context.device, {.release_threshold = std::numeric_limits<std::size_t>::max()});
  constexpr std::size_t bytes = 1 << 20;
  pool.free(stream, pool.allocate(stream, bytes));
  const std::size_t count = context.options.cut(200'000);
  const auto figure = [&](auto&& once) {
    return repeat(context.options, [&] {
      pool.reset_high_marks();
      const double time = seconds([&] {
        for (std::size_t i = 0; i < count; ++i) {
          if constexpr (!sabotaged) once();
        }
        stream.synchronize();
      });
      const weir::PoolStatistics now = pool.statistics();
      expect(now.used_high == bytes && now.used == 0, "not one block at a time was allocated and freed");
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
  const auto filled = weir::full(stream, n, 0.0f);
  stream.synchronize();

  const auto our_copy = [&] {
    if constexpr (!sabotaged) weir::copy(stream, to, from);
    stream.synchronize();
  };
  const auto our_fill = [&] {
    if constexpr (!sabotaged) weir::fill(stream, filled, -0.5f);
    stream.synchronize();
  };
  const auto raw_copy = [&] { raw::copy(to.data(), from.data(), bytes); };
  const auto raw_fill = [&] { raw::fill(filled.data(), 0x3f, bytes); };
  // Before each figure one element of each page is spoiled in both targets, so that none profits from an earlier one.
  constexpr std::size_t page = 1024;
  constexpr float spoiled = -7;
  const auto all_are = [&](const float* data, float value) {
    for (std::size_t i = 0; i < n; i += page) {
      if (data[i] != value) return false;
    }
    return data[n - 1] == value;
  };
  float bytes_of_raw_fill;
  std::memset(&bytes_of_raw_fill, 0x3f, sizeof bytes_of_raw_fill);
  const auto rates = [&](bool copies, bool fills, auto&& raw, auto&& ours) {
    const double moved = 1e-9 * static_cast<double>(bytes) * ((copies ? 1 : 0) + (fills ? 1 : 0));
    const auto rate = [&](float fill_value, auto&& work) {
      for (std::size_t i = 0; i < n; i += page) to.data()[i] = filled.data()[i] = spoiled;
      to.data()[n - 1] = filled.data()[n - 1] = spoiled;
      const double figure = moved / seconds(work);
      if (copies) expect(all_are(to.data(), 1.0f), "a copy did not arrive");
      if (fills) expect(all_are(filled.data(), fill_value), "a fill did not write all");
      return figure;
    };
    return by_turns(
        context.options, [&] { return rate(bytes_of_raw_fill, raw); }, [&] { return rate(-0.5f, ours); });
  };
  const Pair both = rates(
      true, true,
      [&] {
        raw_copy();
        raw_fill();
      },
      [&] {
        our_copy();
        our_fill();
      });
  context.report.add({"B10", "copy and fill 256 MiB", "GB/s", both.ours, both.raw, {ratio_at_least(1.1)}});
  const Pair copies = rates(true, false, raw_copy, our_copy);
  context.report.add({"B10.copy", "the copy alone", "GB/s", copies.ours, copies.raw, {}});
  const Pair fills = rates(false, true, raw_fill, our_fill);
  context.report.add({"B10.fill", "the fill alone", "GB/s", fills.ours, fills.raw, {}});
}

}  // namespace bench
