// Copies between host and device, and to another device.
#include <algorithm>
#include <optional>

#include <weir/error.hpp>

#include "calibrate.hpp"

namespace tool {

namespace {

constexpr std::size_t KiB = Bench::KiB, MiB = Bench::MiB;
using CopyOf = void (Bench::*)(weir::StreamRef, std::size_t) const;

/// What one of several copies in a row takes its engine.
double one_of_many(const Bench& bench, CopyOf copy, std::size_t bytes) {
  const bool large = bytes >= 16 * MiB;
  return bench.slope(large ? 1 : 4, large ? 3 : 12, [&](int count) {
    for (int i = 0; i < count; ++i) (bench.*copy)(bench.a, bytes);
    bench.a.synchronize();
  });
}

Line line_of_sizes(const std::vector<std::size_t>& sizes, const std::function<double(std::size_t)>& us) {
  std::vector<std::pair<double, double>> points;
  for (const std::size_t bytes : sizes) points.emplace_back(static_cast<double>(bytes), us(bytes));
  return line_through(points);
}

double gb_s(const Line& line) { return 1 / (1000 * line.slope); }

void measure_pinned(const Bench& bench, Fields& fields) {
  const std::vector<std::size_t> sizes = {64 * KiB, 256 * KiB, MiB, 4 * MiB, 16 * MiB, 64 * MiB};
  const Line in = line_of_sizes(sizes, [&](std::size_t n) { return one_of_many(bench, &Bench::copy_in, n); });
  const Line out = line_of_sizes(sizes, [&](std::size_t n) { return one_of_many(bench, &Bench::copy_out, n); });
  fields["link.h2d_gb_s"] = gb_s(in);
  fields["link.d2h_gb_s"] = gb_s(out);
  fields["link.setup_h2d_us"] = std::max(0.0, in.at_zero);
  fields["link.setup_d2h_us"] = std::max(0.0, out.at_zero);
  const double alone = bench.us_to_end([&] { bench.copy_in(bench.a, MiB); });
  const double engine = in.at_zero + in.slope * static_cast<double>(MiB);
  fields["start.copy_us"] = std::max(0.0, alone - fields["host.copy_us"] - engine - fields["host.wake_us"]);
}

/// Copies of one direction while the other one moves all the time, be it several times as fast.
void measure_both(const Bench& bench, Fields& fields) {
  const auto beside = [&](CopyOf copy, CopyOf other) {
    return line_of_sizes({256 * KiB, MiB, 2 * MiB}, [&](std::size_t bytes) {
      return bench.slope(2, 6, [&](int count) {
        (bench.*other)(bench.b, Bench::host_bytes);
        for (int i = 0; i < count; ++i) (bench.*copy)(bench.a, bytes);
        bench.a.synchronize();
      });
    });
  };
  const Line in = beside(&Bench::copy_in, &Bench::copy_out), out = beside(&Bench::copy_out, &Bench::copy_in);
  const double factors = gb_s(in) / fields["link.h2d_gb_s"] + gb_s(out) / fields["link.d2h_gb_s"];
  fields["link.both_factor"] = std::clamp(factors / 2, 0.01, 1.0);
  const double setups = in.at_zero - fields["link.setup_h2d_us"] + out.at_zero - fields["link.setup_d2h_us"];
  fields["link.setup_both_us"] = std::max(0.0, setups / 2);
}

/// The host waits for them, so each is alone.
void measure_pageable(const Bench& bench, Fields& fields) {
  const auto line = [&](bool in, const std::vector<std::size_t>& sizes) {
    const weir::StreamRef a = bench.a;
    return line_of_sizes(sizes, [&](std::size_t bytes) {
      const weir::Slice<Quad> device = Bench::part(bench.to, bytes);
      const weir::Slice<Quad> host = Bench::part(bench.pageable, bytes);
      return bench.us_to_end([&] {
        if (in) {
          weir::copy(a, device, host);
        } else {
          weir::copy(a, host, device);
        }
      });
    });
  };
  const double around =
      fields["host.copy_us"] + fields["start.copy_us"] + fields["host.wake_us"] + fields["host.synchronize_us"];
  const auto keep = [&](const std::string& kind, const std::vector<std::size_t>& sizes) {
    const Line in = line(true, sizes), out = line(false, sizes);
    fields["pageable." + kind + "h2d_gb_s"] = gb_s(in);
    fields["pageable." + kind + "d2h_gb_s"] = gb_s(out);
    fields["pageable." + kind + "setup_h2d_us"] = std::max(0.0, in.at_zero - around);
    fields["pageable." + kind + "setup_d2h_us"] = std::max(0.0, out.at_zero - around);
  };
  keep("", {128 * KiB, 256 * KiB, 512 * KiB, MiB});
  keep("staged_", {4 * MiB, 16 * MiB, 64 * MiB});
}

/// The device beside it, if there is one that it can reach.
std::optional<weir::Device> neighbour(const Bench& bench) {
  if (!bench.simulated) {
    for (const weir::Device other : weir::devices(bench.device.backend())) {
      if (weir::can_access_peer(bench.device, other)) return other;
    }
    return {};
  }
  std::string name = bench.device.name();
  if (name.find_first_not_of("0123456789", name.rfind(':') + 1) == std::string::npos) name.resize(name.rfind(':'));
  const weir::Device first = weir::device(name);
  return first == bench.device ? weir::device(name + ":1") : first;
}

void measure_peer(const Bench& bench, Fields& fields) {
  const std::optional<weir::Device> other = neighbour(bench);
  if (!other) return;
  if (!weir::peer_access_enabled(bench.device, *other)) weir::enable_peer_access(bench.device, *other);
  const weir::Array<Quad> there = weir::empty<Quad>(*other, Bench::host_bytes / sizeof(Quad));
  other->synchronize();
  const Line line = line_of_sizes({4 * MiB, 16 * MiB, 64 * MiB}, [&](std::size_t bytes) {
    return bench.slope(1, 4, [&](int copies) {
      for (int i = 0; i < copies; ++i) weir::copy(bench.a, Bench::part(there, bytes), Bench::part(bench.from, bytes));
      bench.a.synchronize();
    });
  });
  fields["link.peer_gb_s"] = gb_s(line);
}

void measure_host_copies(const Bench& bench, Fields& fields) {
  const Line line = line_of_sizes({MiB, 4 * MiB}, [&](std::size_t bytes) {
    return bench.us_to_end(
        [&] { weir::copy(bench.a, Bench::part(bench.pinned_out, bytes), Bench::part(bench.pinned_in, bytes)); });
  });
  fields["memory.host_gb_s"] = gb_s(line);
}

}  // namespace

void measure_copies(const Bench& bench, Fields& fields) {
  measure_pinned(bench, fields);
  measure_both(bench, fields);
  measure_pageable(bench, fields);
  measure_peer(bench, fields);
  measure_host_copies(bench, fields);
}

}  // namespace tool
