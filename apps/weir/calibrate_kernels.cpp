// Blocks and their places, and the ways between commands on the device.
#include <algorithm>

#include <weir/event.hpp>

#include "calibrate.hpp"

namespace tool {

namespace {

/// How many such blocks one multiprocessor holds at once: with one more, some wait for others to end.
std::size_t places(const Bench& bench, std::size_t sms, std::uint32_t threads, std::size_t most) {
  constexpr double spin = 200;
  const auto us = [&](std::size_t per_sm) {
    return bench.us_to_end([&] { bench.spin(bench.a, spin, per_sm * sms, threads); });
  };
  const double one_wave = us(1);
  std::size_t fit = 1, too_many = most + 1;
  while (too_many - fit > 1) {
    const std::size_t middle = (fit + too_many) / 2;
    (us(middle) < one_wave + spin / 2 ? fit : too_many) = middle;
  }
  return fit;
}

/// Launches behind a kernel that lasts, until one has to wait for it; 0 if none does.
int pending(const Bench& bench) {
  constexpr double long_us = 40'000;
  constexpr int most = 3000;
  int count = 0;
  bench.device.synchronize();
  bench.spin(bench.a, long_us);
  for (int i = 1; i < most && count == 0; ++i) {
    const auto before = weir::host_now(bench.device);
    bench.spin(bench.a, 0);
    // Longer than a system keeps a thread from its core.
    if (weir::host_now(bench.device) - before > std::chrono::milliseconds(10)) count = i;
  }
  bench.device.synchronize();
  return count;
}

}  // namespace

void measure_kernels(const Bench& bench, Fields& fields) {
  const weir::DeviceProperties& properties = bench.device.properties();
  const auto sms = static_cast<std::size_t>(properties.multiprocessors);
  fields["memory_bytes"] = static_cast<double>(properties.memory);
  fields["compute_capability"] = properties.compute_capability.major + 0.1 * properties.compute_capability.minor;
  fields["sms"] = properties.multiprocessors;
  fields["resident_kernels"] = properties.max_resident_kernels;
  fields["copy_engines"] = properties.async_engine_count;

  constexpr std::uint32_t wide = 256, narrow = 32;
  const std::size_t wide_places = places(bench, sms, wide, 16), narrow_places = places(bench, sms, narrow, 64);
  fields["threads_per_sm"] = static_cast<double>(wide * wide_places);
  fields["blocks_per_sm"] = static_cast<double>(narrow_places);
  if (const int count = pending(bench); count > 0) fields["pending_commands"] = count;

  const auto all_blocks = static_cast<double>(sms * narrow_places);
  const double one = bench.us_to_end([&] { bench.spin(bench.a, 20, 1, narrow); });
  const double all = bench.us_to_end([&] { bench.spin(bench.a, 20, sms * narrow_places, narrow); });
  fields["blocks.start_us"] = std::max(0.0, (all - one) / (all_blocks - 1));
  constexpr double spin = 10;
  const double wave = bench.slope(2, 12, [&](int waves) {
    bench.spin(bench.a, spin, static_cast<std::size_t>(waves) * sms * wide_places, wide);
    bench.a.synchronize();
  });
  fields["blocks.turnaround_us"] = std::max(0.0, wave - spin);
}

void measure_order(const Bench& bench, Fields& fields) {
  const weir::StreamRef a = bench.a, b = bench.b, legacy = weir::legacy_stream(bench.device);
  constexpr double spin = 40;
  constexpr std::size_t bytes = Bench::MiB;
  const auto hop = [&](const char* name, double us) { fields[name] = std::max(0.0, us); };
  hop("hop.kernel_kernel_us", bench.slope(4, 24, [&](int count) {
    for (int i = 0; i < count; ++i) bench.spin(a, spin);
    a.synchronize();
  }) - spin);
  const weir::Event event(bench.device);
  hop("hop.event_us", bench.slope(2, 12, [&](int count) {
    for (int i = 0; i < count; ++i) {
      bench.spin(a, spin);
      a.record(event);
      b.wait(event);
      bench.spin(b, spin);
      b.record(event);
      a.wait(event);
    }
    a.synchronize();
  }) / 2 - spin - fields["hop.kernel_kernel_us"]);
  const weir::Stream between(bench.device);
  const weir::Event passed(bench.device);
  const double two = 2 * (spin + fields["hop.kernel_kernel_us"] + fields["hop.event_us"]);
  hop("hop.passed_event_us", bench.slope(2, 12, [&](int count) {
    for (int i = 0; i < count; ++i) {
      bench.spin(a, spin);
      a.record(event);
      between.wait(event);
      between.record(passed);
      b.wait(passed);
      bench.spin(b, spin);
      b.record(event);
      a.wait(event);
    }
    a.synchronize();
  }) - two);
  const double kernel = bench.us_to_end([&] { bench.spin(a, spin); });
  const double copy = bench.us_to_end([&] { bench.copy_in(a, bytes); });
  const double engine_in = fields["link.setup_h2d_us"] + static_cast<double>(bytes) / fields["link.h2d_gb_s"] / 1000;
  const double engine_out = fields["link.setup_d2h_us"] + static_cast<double>(bytes) / fields["link.d2h_gb_s"] / 1000;
  hop("hop.copy_kernel_us", bench.us_to_end([&] {
    bench.copy_in(a, bytes);
    bench.spin(a, spin);
  }) - copy - spin);
  hop("hop.kernel_copy_us", bench.us_to_end([&] {
    bench.spin(a, spin);
    bench.copy_in(a, bytes);
  }) - kernel - engine_in);
  hop("hop.copy_copy_us", (bench.slope(2, 12,
                                       [&](int count) {
                                         for (int i = 0; i < count; ++i) {
                                           bench.copy_in(a, bytes);
                                           bench.copy_out(a, bytes);
                                         }
                                         a.synchronize();
                                       }) -
                           engine_in - engine_out) /
                              2);
  hop("hop.legacy_us", bench.us_to_end([&] {
    bench.spin(b, spin);
    bench.spin(legacy, spin);
    bench.spin(a, spin);
  }) - kernel - two);
  fields["hop.legacy_us"] /= 2;  // there and back
}

}  // namespace tool
