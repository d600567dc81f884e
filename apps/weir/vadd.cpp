// `weir demo vadd`: z = x + y on the default stream in one piece, against several streams in chunks.
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include <fmt/format.h>

#include <weir/copy.hpp>
#include <weir/memory.hpp>

#include "demo.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "work.hpp"

namespace tool {

namespace {

constexpr std::int64_t most_streams = 4096;

/// The same kind of data as the article's: between 10 and 20.
double value_at(std::uint64_t i) {
  std::uint64_t x = (i + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return 10.0 + 10.0 * (static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53);
}

class Addition {
 public:
  Addition(weir::Device device, std::size_t n, std::size_t streams)
      : device_(device),
        legacy_(weir::legacy_stream(device)),
        n_(n),
        x_(n),
        y_(n),
        z_(n),
        device_x_(weir::empty<double>(legacy_, n)),
        device_y_(weir::empty<double>(legacy_, n)),
        device_z_(weir::empty<double>(legacy_, n)) {
    for (std::size_t i = 0; i < n; ++i) x_[i] = value_at(2 * i);
    for (std::size_t i = 0; i < n; ++i) y_[i] = value_at(2 * i + 1);
    for (std::size_t s = 0; s < streams; ++s) streams_.emplace_back(device);
  }

  /// As the first half of the article: pageable arrays, everything on the default stream.
  double one_stream() {
    spoil_result();
    const Stopwatch watch(device_);
    weir::copy(legacy_, device_x_, x_);
    weir::copy(legacy_, device_y_, y_);
    add(legacy_, whole(device_x_), whole(device_y_), whole(device_z_));
    weir::copy(legacy_, z_, device_z_);
    legacy_.synchronize();
    return watch.milliseconds();
  }

  /// Copies in, kernel and copy out of each chunk on a stream of its own; the last chunk takes the rest.
  double many_streams() {
    spoil_result();
    const weir::ScopedPin pin_x(x_), pin_y(y_), pin_z(z_);
    const Stopwatch watch(device_);
    const std::size_t chunk = n_ / streams_.size();
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      const std::size_t begin = s * chunk;
      const std::size_t end = s + 1 == streams_.size() ? n_ : begin + chunk;
      run_chunk(streams_[s], begin, end);
    }
    for (const weir::Stream& stream : streams_) stream.synchronize();
    return watch.milliseconds();
  }

  bool correct() const {
    for (std::size_t i = 0; i < n_; ++i) {
      if (z_[i] != x_[i] + y_[i]) return false;
    }
    return true;
  }

 private:
  void run_chunk(weir::StreamRef stream, std::size_t begin, std::size_t end) {
    const auto part = [&](std::vector<double>& all) { return std::span(all).subspan(begin, end - begin); };
    weir::copy(stream, device_x_.slice(begin, end), part(x_));
    weir::copy(stream, device_y_.slice(begin, end), part(y_));
    add(stream, device_x_.slice(begin, end), device_y_.slice(begin, end), device_z_.slice(begin, end));
    weir::copy(stream, part(z_), device_z_.slice(begin, end));
  }

  weir::Slice<double> whole(const weir::Array<double>& array) const { return array.slice(0, n_); }

  /// So that no run can profit from the result of an earlier one.
  void spoil_result() {
    std::fill(z_.begin(), z_.end(), std::numeric_limits<double>::quiet_NaN());
    weir::fill(legacy_, device_z_, std::numeric_limits<double>::quiet_NaN());
    device_.synchronize();
  }

  weir::Device device_;
  weir::StreamRef legacy_;
  std::size_t n_;
  std::vector<double> x_, y_, z_;
  weir::Array<double> device_x_, device_y_, device_z_;
  std::vector<weir::Stream> streams_;
};

void check(const VaddOptions& o, weir::Device device) {
  check_range("--n", o.n, 1, std::int64_t{1} << 40);
  check_range("--streams", o.streams, 1, most_streams);
  check_range("--repeat", o.repeat, 1, 10'000);
  if (o.streams > o.n) {
    throw UsageError(fmt::format("--streams {}: more streams than elements ({})", o.streams, o.n));
  }
  check_memory("--n", o.n, 3, 3, device);
}

}  // namespace

DemoResult run_vadd(const Session& session, const VaddOptions& o) {
  const weir::Device device = session.device();
  check(o, device);
  session.say(fmt::format("vadd: z = x + y over {} doubles on {} ({})\n", grouped(static_cast<std::uint64_t>(o.n)),
                          device.name(), device.properties().name));
  Progress progress("vadd", static_cast<std::size_t>(2 * o.repeat + 2));
  Addition addition(device, static_cast<std::size_t>(o.n), static_cast<std::size_t>(o.streams));
  Times one, many;
  bool correct = true;
  for (std::int64_t run = 0; run <= o.repeat; ++run) {
    const double one_ms = addition.one_stream();
    correct = addition.correct() && correct;
    progress.step();
    const double many_ms = addition.many_streams();
    correct = addition.correct() && correct;
    progress.step();
    if (run == 0) continue;  // the warm-up
    one.add(one_ms);
    many.add(many_ms);
  }
  const double speedup = ratio(one, many);
  const auto row = [](const std::string& name, const char* how, const Times& t) {
    return fmt::format("  {:<16}{:<36}{:>9.2f} ms   ({:.2f} to {:.2f})\n", name, how, t.median(), t.least(),
                       t.greatest());
  };
  session.say(
      row("default stream", "pageable arrays, one piece", one) +
      row(fmt::format("{} stream{}", o.streams, o.streams == 1 ? "" : "s"), "pinned arrays, a chunk on each", many) +
      fmt::format("  speed-up {:.2f}, result {}\n  ", speedup, correct ? "correct" : "WRONG") +
      fmt::format(how_measured, o.repeat) + overlap_note(device));
  return {.name = "vadd",
          .what = fmt::format("{} doubles, {} streams", grouped(static_cast<std::uint64_t>(o.n)), o.streams),
          .one_ms = one.median(),
          .many_ms = many.median(),
          .good = correct,
          .json = {{"device", device.name()},
                   {"n", o.n},
                   {"streams", o.streams},
                   {"one_stream_ms", thousandths(one.median())},
                   {"streams_ms", thousandths(many.median())},
                   {"speedup", thousandths(speedup)},
                   {"correct", correct}}};
}

void add_vadd(const Command& demo, Session& session) {
  const Command command = demo.add("vadd", "Vector addition: one stream against several, in chunks");
  command.footer(
      "Adds two vectors twice. First as one would begin: pageable arrays, and both copies in, the kernel and the copy\n"
      "out one after the other on the default stream. Then in chunks, each on a stream of its own, from pinned "
      "arrays:\n"
      "while one chunk computes, the next is copied in and the last one out. Every element of every run is checked.\n"
      "\nExample:  weir demo vadd --n 20000000 --streams 5 --json");
  const auto options = std::make_shared<VaddOptions>();
  command.number("--n", options->n, "Elements of each vector");
  command.number("--streams", options->streams, "Streams, and chunks");
  command.number("--repeat", options->repeat, "Timed runs of each variant");
  add_demo_options(command, session);
  command.when_given([&session, command, options] {
    session.run = [&session, command, options] {
      make_small(session, command, "--n", options->n, VaddOptions::small_n);
      return finish_demo(session, run_vadd(session, *options));
    };
  });
}

}  // namespace tool
