// `weir demo normalize`: a = a / sum(a) for several arrays, on one stream and on one stream each.
#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include <weir/copy.hpp>
#include <weir/host_access.hpp>
#include <weir/memory.hpp>

#include "demo.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "work.hpp"

namespace tool {

namespace {

double value_at(std::size_t array, std::size_t i) { return 1.0 + static_cast<double>((i * 7 + array * 13) % 1000); }

/// One array on its way: in pinned memory, on the device, and its sums.
struct Job {
  weir::Array<double> pinned;
  weir::Array<double> values;
  weir::Array<double> partial;
  weir::Array<double> sum;
  double expected_sum = 0;

  Job(weir::StreamRef stream, std::size_t array, std::size_t n)
      : pinned(weir::empty<double>(weir::pinned, n)),
        values(weir::empty<double>(stream, n)),
        partial(weir::empty<double>(stream, (n + partial_chunk - 1) / partial_chunk)),
        sum(weir::empty<double>(stream, 1)) {
    for (std::size_t i = 0; i < n; ++i) expected_sum += value_at(array, i);
  }

  void enqueue(weir::StreamRef stream) {
    const auto all = [](const weir::Array<double>& a) { return a.slice(0, a.size()); };
    weir::copy(stream, values, pinned);
    partial_reduce(stream, all(values), all(partial));
    single_thread_sum(stream, all(partial), all(sum));
    divide_by(stream, all(values), all(sum));
    weir::copy(stream, pinned, values);
  }
};

/// When each array's work began and ended on the device, and the whole as the host saw it; milliseconds.
struct Run {
  std::vector<double> begin = {}, end = {};
  double device_ms = 0;
  double host_ms = 0;
};

class Normalization {
 public:
  Normalization(weir::Device device, std::size_t arrays, std::size_t n) : device_(device) {
    for (std::size_t a = 0; a < arrays; ++a) {
      streams_.emplace_back(device);
      starts_.emplace_back(device);
      ends_.emplace_back(device);
      jobs_.emplace_back(streams_[0], a, n);
    }
    device.synchronize();
  }

  Run run(bool one_stream) {
    for (std::size_t a = 0; a < jobs_.size(); ++a) {
      std::size_t i = 0;
      for (double& value : weir::host_write(jobs_[a].pinned)) value = value_at(a, i++);
    }
    const Stopwatch watch(device_);
    for (std::size_t a = 0; a < jobs_.size(); ++a) {
      const weir::StreamRef stream = streams_[one_stream ? 0 : a];
      stream.record(starts_[a]);
      jobs_[a].enqueue(stream);
      stream.record(ends_[a]);
    }
    device_.synchronize();
    return read_events(watch.milliseconds());
  }

  bool correct() const {
    for (std::size_t a = 0; a < jobs_.size(); ++a) {
      std::size_t i = 0;
      for (const double value : weir::host_read(jobs_[a].pinned)) {
        const double expected = value_at(a, i++) / jobs_[a].expected_sum;
        // The device adds in another order than the host; NaN must fail.
        if (!(std::abs(value - expected) <= 1e-9 * expected)) return false;
      }
    }
    return true;
  }

 private:
  Run read_events(double host_ms) const {
    Run run{.host_ms = host_ms};
    for (std::size_t a = 0; a < jobs_.size(); ++a) {
      run.begin.push_back(weir::elapsed(starts_[0], starts_[a]).count());
      run.end.push_back(weir::elapsed(starts_[0], ends_[a]).count());
    }
    run.device_ms =
        *std::max_element(run.end.begin(), run.end.end()) - *std::min_element(run.begin.begin(), run.begin.end());
    return run;
  }

  weir::Device device_;
  std::vector<weir::Stream> streams_;
  std::vector<weir::TimedEvent> starts_, ends_;
  std::vector<Job> jobs_;
};

/// One bar for each of the first arrays, from its first event to its last.
std::string bars(const Run& run) {
  constexpr std::size_t width = 60, most_rows = 12;
  const double first = *std::min_element(run.begin.begin(), run.begin.end());
  const double scale = run.device_ms > 0 ? static_cast<double>(width - 1) / run.device_ms : 0;
  std::string text;
  for (std::size_t a = 0; a < std::min(run.begin.size(), most_rows); ++a) {
    const auto from = static_cast<std::size_t>((run.begin[a] - first) * scale);
    const auto to = std::max(from, static_cast<std::size_t>((run.end[a] - first) * scale));
    text += fmt::format("    array {:<3}|{}{}{}|\n", a, std::string(from, ' '), std::string(to - from + 1, '='),
                        std::string(width - 1 - std::min(to, width - 1), ' '));
  }
  if (run.begin.size() > most_rows) text += fmt::format("    and {} more\n", run.begin.size() - most_rows);
  return text;
}

struct Variant {
  bool one_stream;
  Times device = {}, host = {};
  Run last = {};
};

std::string describe(const Variant& v, std::int64_t arrays) {
  return fmt::format("  {:<18} by events {:>9.2f} ms   by the host {:>9.2f} ms\n",
                     v.one_stream ? "one stream" : fmt::format("{} streams", arrays), v.device.median(),
                     v.host.median()) +
         bars(v.last);
}

}  // namespace

DemoResult run_normalize(const Session& session, const NormalizeOptions& o) {
  const weir::Device device = session.device();
  check_range("--arrays", o.arrays, 1, 4096);
  check_range("--n", o.n, 1, std::int64_t{1} << 40);
  check_range("--repeat", o.repeat, 1, 10'000);
  check_memory("--n", o.n, o.arrays, o.arrays, device);
  session.say(fmt::format("normalize: a = a / sum(a) for {} arrays of {} doubles on {}\n", o.arrays,
                          grouped(static_cast<std::uint64_t>(o.n)), device.name()));
  Progress progress("normalize", static_cast<std::size_t>(2 * o.repeat + 2));
  Normalization work(device, static_cast<std::size_t>(o.arrays), static_cast<std::size_t>(o.n));
  Variant one{.one_stream = true}, many{.one_stream = false};
  bool correct = true;
  for (std::int64_t run = 0; run <= o.repeat; ++run) {
    for (Variant* v : {&one, &many}) {
      v->last = work.run(v->one_stream);
      correct = work.correct() && correct;
      progress.step();
      if (run == 0) continue;  // the warm-up
      v->device.add(v->last.device_ms);
      v->host.add(v->last.host_ms);
    }
  }
  const double speedup = ratio(one.device, many.device);
  session.say(describe(one, o.arrays) + describe(many, o.arrays) +
              fmt::format("  speed-up by events {:.2f}, result {}\n  ", speedup, correct ? "correct" : "WRONG") +
              fmt::format(how_measured, o.repeat) +
              "  The bars are the last run's: from each array's first event to its last.\n");
  const auto times = [](const Variant& v) {
    return Json{{"events_ms", thousandths(v.device.median())}, {"host_ms", thousandths(v.host.median())}};
  };
  return {.name = "normalize",
          .what = fmt::format("{} arrays of {} doubles", o.arrays, grouped(static_cast<std::uint64_t>(o.n))),
          .one_ms = one.device.median(),
          .many_ms = many.device.median(),
          .good = correct,
          .json = {{"device", device.name()},
                   {"arrays", o.arrays},
                   {"n", o.n},
                   {"one_stream", times(one)},
                   {"streams", times(many)},
                   {"speedup", thousandths(speedup)},
                   {"correct", correct}}};
}

void add_normalize(const Command& demo, Session& session) {
  const Command command = demo.add("normalize", "Divide arrays by their sums: one stream, and one stream each");
  command.footer(
      "Each array is copied in, summed by two kernels, divided by its sum and copied out: five commands in the order "
      "of\n"
      "one stream. The arrays do not depend on each other, so each may have a stream of its own. Events on the device\n"
      "and the host's clock time both ways, and bars show when each array was worked on.\n"
      "\nExample:  weir demo normalize --arrays 10");
  const auto options = std::make_shared<NormalizeOptions>();
  command.number("--arrays", options->arrays, "Arrays");
  command.number("--n", options->n, "Elements of each array");
  command.number("--repeat", options->repeat, "Timed runs of each variant");
  add_demo_options(command, session);
  command.when_given([&session, command, options] {
    session.run = [&session, command, options] {
      make_small(session, command, "--n", options->n, NormalizeOptions::small_n);
      return finish_demo(session, run_normalize(session, *options));
    };
  });
}

}  // namespace tool
