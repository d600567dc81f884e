// The device's memory: kernels that move bytes, fills, and copies within it.
#include <algorithm>
#include <cmath>

#include "calibrate.hpp"

namespace tool {

namespace {

/// From the begin to the first byte. The line is that of large sizes; a small one has the least noise.
double before_first_byte(const Bench& bench, double call, double lag, double us_per_byte, std::size_t bytes,
                         const std::function<void()>& body, const Fields& fields) {
  const double whole = bench.us_to_end(body);
  const double rest = call + fields.at("start.kernel_us") + fields.at("host.wake_us") + lag;
  return std::max(0.0, whole - rest - us_per_byte * static_cast<double>(bytes));
}

}  // namespace

void measure_memory(const Bench& bench, Fields& fields) {
  const weir::StreamRef a = bench.a;
  constexpr std::size_t small = 8 * Bench::MiB;
  constexpr std::uint32_t threads = 256;
  const std::size_t large = bench.device_bytes(), middle = large / 2;
  const auto sms = static_cast<std::size_t>(fields["sms"]);
  const auto wave = sms * static_cast<std::size_t>(fields["threads_per_sm"] / threads);
  const auto us_per_byte = [&](const std::function<void(std::size_t)>& body) {
    const double less = bench.us_to_end([&] { body(middle); });
    return (bench.us_to_end([&] { body(large); }) - less) / static_cast<double>(large - middle);
  };
  const double full = us_per_byte([&](std::size_t bytes) { bench.move(a, bytes, wave, threads); });
  fields["memory.gb_s"] = 1 / (1000 * full);
  // Where few threads get less than the rate, each is known to get so much; all that it takes more of is threads.
  const double few = us_per_byte([&](std::size_t bytes) { bench.move(a, bytes, sms, threads); });
  fields["memory.saturating_share"] = std::clamp(threads / fields["threads_per_sm"] * few / full, 0.001, 1.0);

  const double starts = fields["blocks.start_us"];
  fields["memory.kernel_us"] = before_first_byte(
      bench, fields["host.launch_memory_us"], starts * static_cast<double>(wave), full, small,
      [&] { bench.move(a, small, wave, threads); }, fields);
  // The driver's own kernels are known to the model as waves of 512 threads.
  const double driver_lag = starts * static_cast<double>(sms) * std::floor(fields["threads_per_sm"] / 512);
  const double fill = us_per_byte([&](std::size_t bytes) { bench.fill(a, bytes); });
  fields["memory.fill_us"] = before_first_byte(
      bench, fields["host.fill_us"], driver_lag, fill, small, [&] { bench.fill(a, small); }, fields);
  const double copy = us_per_byte([&](std::size_t bytes) { bench.copy_within(a, bytes); });
  fields["memory.copy_us"] = before_first_byte(
      bench, fields["host.copy_within_us"], driver_lag, copy, small, [&] { bench.copy_within(a, small); }, fields);
}

}  // namespace tool
