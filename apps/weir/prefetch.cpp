// `weir demo prefetch`: batch i + 1 is copied on one stream while batch i computes on another; against one stream.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <weir/copy.hpp>
#include <weir/event.hpp>
#include <weir/host_access.hpp>
#include <weir/memory.hpp>

#include "demo.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "work.hpp"

namespace tool {

namespace {

constexpr std::uint32_t rounds = 4;
constexpr std::size_t buffers = 2;

std::uint32_t value_at(std::size_t batch, std::size_t i) {
  return static_cast<std::uint32_t>(i * 2654435761u + batch * 40503u);
}

class Prefetch {
 public:
  Prefetch(weir::Device device, std::size_t batches, std::size_t n)
      : device_(device),
        batches_(batches),
        n_(n),
        copies_(device, {.name = "copies"}),
        compute_(device, {.name = "compute"}),
        source_(weir::empty<std::uint32_t>(weir::pinned, {batches, n})),
        result_(weir::empty<std::uint32_t>(weir::pinned, n)),
        state_(weir::empty<std::uint32_t>(compute_, n)) {
    for (std::size_t b = 0; b < buffers; ++b) {
      buffers_.push_back(weir::empty<std::uint32_t>(copies_, n));
      copied_.emplace_back(device);
      used_.emplace_back(device);
    }
    std::uint32_t* const data = source_.data();
    for (std::size_t b = 0; b < batches; ++b) {
      for (std::size_t i = 0; i < n; ++i) data[b * n + i] = value_at(b, i);
    }
    compute_expected();
    device.synchronize();
  }

  double one_stream() {
    begin();
    const Stopwatch watch(device_);
    for (std::size_t b = 0; b < batches_; ++b) {
      weir::copy(compute_, buffers_[0], batch(b));
      digest(compute_, all(buffers_[0]), all(state_), rounds);
    }
    return finish(watch);
  }

  /// A buffer is filled when its last use has ended, and used when it is filled: two waits by event, none by the host.
  double two_streams() {
    begin();
    const Stopwatch watch(device_);
    for (std::size_t b = 0; b < batches_; ++b) {
      const std::size_t at = b % buffers;
      copies_.wait(used_[at]);
      weir::copy(copies_, buffers_[at], batch(b));
      copies_.record(copied_[at]);
      compute_.wait(copied_[at]);
      digest(compute_, all(buffers_[at]), all(state_), rounds);
      compute_.record(used_[at]);
    }
    return finish(watch);
  }

  bool correct() const {
    const auto result = weir::host_read(result_);
    return std::equal(result.begin(), result.end(), expected_.begin());
  }

 private:
  static weir::Slice<std::uint32_t> all(const weir::Array<std::uint32_t>& a) { return a.slice(0, a.size()); }
  weir::Slice<std::uint32_t> batch(std::size_t b) const { return source_.slice(b, b + 1).reshape(n_); }

  void begin() {
    weir::fill(compute_, state_, 1u);
    weir::fill(compute_, result_, 0u);
    device_.synchronize();
  }

  double finish(const Stopwatch& watch) {
    weir::copy(compute_, result_, state_);
    compute_.synchronize();
    return watch.milliseconds();
  }

  void compute_expected() {
    expected_.assign(n_, 1);
    for (std::size_t b = 0; b < batches_; ++b) {
      for (std::size_t i = 0; i < n_; ++i) expected_[i] = expected_[i] * 31 + mix(value_at(b, i), rounds);
    }
  }

  weir::Device device_;
  std::size_t batches_, n_;
  weir::Stream copies_, compute_;
  weir::Array<std::uint32_t> source_, result_, state_;
  std::vector<weir::Array<std::uint32_t>> buffers_;
  std::vector<weir::Event> copied_, used_;
  std::vector<std::uint32_t> expected_;
};

}  // namespace

DemoResult run_prefetch(const Session& session, const PrefetchOptions& o) {
  const weir::Device device = session.device();
  check_range("--batches", o.batches, 1, 100'000);
  check_range("--n", o.n, 1, std::int64_t{1} << 40);
  check_range("--repeat", o.repeat, 1, 10'000);
  check_memory("--n", o.n, 2, (o.batches + 3) / 2 + 1, device);  // elements of 4 bytes, not 8
  session.say(fmt::format("prefetch: {} batches of {} elements on {}\n", o.batches,
                          grouped(static_cast<std::uint64_t>(o.n)), device.name()));
  Progress progress("prefetch", static_cast<std::size_t>(2 * o.repeat + 2));
  Prefetch work(device, static_cast<std::size_t>(o.batches), static_cast<std::size_t>(o.n));
  Times one, two;
  bool correct = true;
  for (std::int64_t run = 0; run <= o.repeat; ++run) {
    const double one_ms = work.one_stream();
    correct = work.correct() && correct;
    progress.step();
    const double two_ms = work.two_streams();
    correct = work.correct() && correct;
    progress.step();
    if (run == 0) continue;  // the warm-up
    one.add(one_ms);
    two.add(two_ms);
  }
  const double speedup = ratio(one, two);
  const auto row = [](const char* name, const char* how, const Times& t) {
    return fmt::format("  {:<16}{:<36}{:>9.2f} ms   ({:.2f} to {:.2f})\n", name, how, t.median(), t.least(),
                       t.greatest());
  };
  session.say(
      "  copies   |[copy 0][copy 1]        [copy 2]        [copy 3] ...\n"
      "  compute  |        [compute 0    ][compute 1    ][compute 2 ...\n" +
      row("one stream", "copy, compute, copy, compute", one) +
      row("two streams", "the next copy during each compute", two) +
      fmt::format("  speed-up {:.2f}, result {}\n  ", speedup, correct ? "correct" : "WRONG") +
      fmt::format(how_measured, o.repeat) + overlap_note(device));
  return {.name = "prefetch",
          .what = fmt::format("{} batches of {}", o.batches, grouped(static_cast<std::uint64_t>(o.n))),
          .one_ms = one.median(),
          .many_ms = two.median(),
          .good = correct,
          .json = {{"device", device.name()},
                   {"batches", o.batches},
                   {"n", o.n},
                   {"one_stream_ms", thousandths(one.median())},
                   {"two_streams_ms", thousandths(two.median())},
                   {"speedup", thousandths(speedup)},
                   {"correct", correct}}};
}

void add_prefetch(const Command& demo, Session& session) {
  const Command command = demo.add("prefetch", "Copy the next batch while this one computes");
  command.footer(
      "Batches go from pinned memory through two buffers of the device. One stream copies, the other computes; an "
      "event\n"
      "says that a buffer is filled, another that it may be filled again, and the host waits for neither. The result\n"
      "depends on every batch and on their order, so that a missing wait would show.\n"
      "\nExample:  weir demo prefetch --batches 32 --n 1000000");
  const auto options = std::make_shared<PrefetchOptions>();
  command.number("--batches", options->batches, "Batches");
  command.number("--n", options->n, "Elements of each batch");
  command.number("--repeat", options->repeat, "Timed runs of each variant");
  add_demo_options(command, session);
  command.when_given([&session, command, options] {
    session.run = [&session, command, options] {
      make_small(session, command, "--n", options->n, PrefetchOptions::small_n);
      return finish_demo(session, run_prefetch(session, *options));
    };
  });
}

}  // namespace tool
