// check.*: what a checker that is attached adds to the caller's own time.
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <malloc.h>

#include <weir/check.hpp>
#include <weir/copy.hpp>
#include <weir/event.hpp>
#include <weir/graph.hpp>

#include "added.hpp"
#include "bench.hpp"
#include "work.hpp"

namespace bench {

namespace {

struct Checking {
  static constexpr const char* name = "checker";
  void look() const { expect(checker.findings().empty(), "a program without hazards has findings"); }
  weir::Checker checker{{.mode = weir::CheckMode::collect}};
};

template <class Make>
void added(Context& context, Row row, std::size_t count, std::size_t at_once, const Make& make) {
  added_by<Checking>(context, std::move(row), count, at_once, make);
}

class Hops {
 public:
  static constexpr std::size_t tasks = 0;

  explicit Hops(Context& context) : streams_(streams_of(context, 2)), event_(context.device) {}
  void operator()(std::size_t i) const {
    streams_[i % 2].record(event_);
    streams_[(i + 1) % 2].wait(event_);
  }

 private:
  std::vector<weir::Stream> streams_;
  weir::Event event_;
};

class Neighbours {
 public:
  static constexpr std::size_t tasks = 0;

  Neighbours(Context& context, std::size_t count)
      : streams_(streams_of(context, 1)),
        to_(weir::zeros<float>(streams_[0], 2 * count)),
        from_(weir::zeros<float>(streams_[0], 2)) {}
  void operator()(std::size_t i) const { weir::copy(streams_[0], to_.slice(2 * i, 2 * i + 2), from_); }
  void read_all() const {
    weir::launch(
        streams_[0], 1, [](std::size_t, In) { tally(); }, weir::in(to_));
  }

 private:
  std::vector<weir::Stream> streams_;
  Floats to_;
  Floats from_;
};

/// Written by two streams in turn: no two neighbours are of one stream.
class Stripes {
 public:
  static constexpr std::size_t tasks = 0;
  static constexpr std::size_t stripes = 10'000;

  explicit Stripes(Context& context)
      : streams_(streams_of(context, 2)),
        to_(weir::zeros<float>(streams_[0], 2 * stripes)),
        from_(weir::zeros<float>(streams_[0], 2)) {
    streams_[1].wait(streams_[0]);
  }
  void operator()(std::size_t i) const {
    const std::size_t at = 2 * (i % stripes);
    weir::copy(streams_[i % 2], to_.slice(at, at + 2), from_);
  }
  /// By a stream that is behind both.
  void read_all() const {
    streams_[0].wait(streams_[1]);
    weir::launch(
        streams_[0], 1, [](std::size_t, In) { tally(); }, weir::in(to_));
  }

 private:
  std::vector<weir::Stream> streams_;
  Floats to_;
  Floats from_;
};

class Replays {
 public:
  static constexpr std::size_t tasks = 1000;

  explicit Replays(Context& context) : streams_(streams_of(context, 1)), shared_(arrays_on(streams_[0], 4)) {
    for (std::size_t i = 0; i < 7; ++i) own_.push_back(arrays_on(streams_[0], 4));
    graph_ = weir::capture(streams_[0], [&] {
      for (std::size_t i = 0; i < 1000; ++i) touch(streams_[0], shared_, own_[i % own_.size()]);
    });
    graph_->launch(streams_[0]);  // the first one is looked at node by node
  }
  void operator()(std::size_t) const { graph_->launch(streams_[0]); }

 private:
  std::vector<weir::Stream> streams_;
  std::vector<Floats> shared_;
  std::vector<std::vector<Floats>> own_;
  std::optional<weir::Graph> graph_;
};

/// Milliseconds of one launch that reads all that was written, with a checker.
template <class Written>
void read_of_all(Context& context, Row row, std::size_t count, const Written& written) {
  const Spread time = repeat(context.options, [&] {
    const weir::Checker checker({.mode = weir::CheckMode::collect});
    const auto act = written();
    for (std::size_t i = 0; i < count; ++i) act(i);
    weir::synchronize();
    return counted(1, [&] {
      const double begin = thread_seconds();
      act.read_all();
      const double end = thread_seconds();
      weir::synchronize();
      expect(checker.findings().empty(), "a program without hazards has findings");
      return 1e3 * (end - begin);
    });
  });
  row.unit = "ms";
  row.value = time;
  context.report.add(row);
}

/// Launches a second, as B1, before this process has had a checker and after one has gone.
void off(Context& context) {
  const std::size_t count = context.options.cut(2'000'000);
  LaunchRate rate(context.device, 1, count);
  const auto once = [&] { return counted(count, [&] { return rate(); }); };
  static_cast<void>(once());
  const Spread before = repeat(context.options, once);
  { const weir::Checker checker({.mode = weir::CheckMode::collect}); }
  const Spread after = repeat(context.options, once);
  context.report.add({.name = "check.off",
                      .work = "B1 with no checker attached, after one has gone; before it",
                      .unit = "M/s",
                      .value = after,
                      .raw = before,
                      .reach = {ratio_at_least(0.99)}});
}

/// Heap that one live access takes.
void state(Context& context) {
  weir::Checker checker({.mode = weir::CheckMode::collect});
  const Stripes written(context);
  const auto bytes = [&] {
    weir::synchronize();
    return static_cast<double>(mallinfo2().uordblks);
  };
  static_cast<void>(bytes());
  const auto per_access = [&](const auto& act) {
    const std::size_t accesses = checker.statistics().accesses;
    const double before = bytes();
    act();
    const double grown = bytes() - before;
    const std::size_t made = checker.statistics().accesses - accesses;
    expect(made >= Stripes::stripes / 2, "there are no accesses");
    return grown / static_cast<double>(made < 1 ? 1 : made);
  };
  const double writes = per_access([&] {
    for (std::size_t i = 0; i < Stripes::stripes; ++i) written(i);
  });
  const auto streams = streams_of(context, 2);
  const Floats shared = weir::zeros<float>(streams[0], 2 * Stripes::stripes);
  streams[1].wait(streams[0]);
  const double reads = counted(Stripes::stripes, [&] {
    return per_access([&] {
      for (std::size_t i = 0; i < Stripes::stripes; ++i) {
        weir::launch(
            streams[i % 2], 1, [](std::size_t, In) { tally(); }, weir::in(shared.slice(2 * i, 2 * i + 2)));
        if (i % 1000 == 0) weir::synchronize();
      }
    });
  });
  const double most = writes > reads ? writes : reads;
  context.report.add({.name = "check.state",
                      .work = "state of a live access, of 10,000 that never merge",
                      .unit = "bytes",
                      .value = {most, writes, reads},
                      .reach = {at_most(64, "bytes")},
                      .note = "writes, and reads",
                      .others_matter_not = true});
}

/// Growth of resident memory from the first hundredth of the launches on. A hundredth as many streams, events and arrays come and go.
void memory(Context& context) {
  const std::size_t count = context.options.cut(10'000'000), rounds = count / 100, first = rounds / 100;
  const auto main = streams_of(context, 1);
  const std::vector<Floats> shared = arrays_on(main[0], 4), own = arrays_on(main[0], 4);
  weir::synchronize();
  const weir::Checker checker({.mode = weir::CheckMode::collect});
  double before = 0;
  const auto round = [&] {
    const weir::Stream s(context.device, {.blocking = false});
    const weir::Event e(context.device);
    const auto x = weir::zeros<float>(s, 16);
    weir::launch(
        s, 1, [](std::size_t, Out) { tally(); }, weir::inout(x));
    s.record(e);
    main[0].wait(e);
    weir::launch(
        main[0], 1, [](std::size_t, In) { tally(); }, weir::in(x));
    for (std::size_t i = 2; i < 100; ++i) touch(main[0], shared, own);
    main[0].synchronize();
  };
  const double grown = counted(rounds * 100, [&] {
    for (std::size_t i = 0; i < rounds; ++i) {
      if (i == first) before = resident_mib();
      round();
    }
    return resident_mib() - before;
  });
  expect(checker.findings().empty(), "a program without hazards has findings");
  context.report.add(
      {.name = "check.memory",
       .work = "growth of memory in " + context.counts(10'000'000) + " launches, from the first hundredth on",
       .unit = "MiB",
       .value = {grown, grown, grown},
       .reach = {at_most(1, "MiB")},
       .note = context.counts(100'000) + " streams, events and arrays came and went",
       .others_matter_not = true});
}

}  // namespace

void check(Context& context) {
  off(context);
  const std::size_t launches = context.options.cut(200'000), copies = context.options.cut(100'000);
  added(
      context,
      {.name = "check.launch", .work = "launches with 8 arguments, 8 streams in turn", .reach = {at_most(1000, "ns")}},
      launches, 2000, [&] { return Launches(context, 8, false); });
  added(context, {.name = "check.hop", .work = "a record and a wait", .reach = {at_most(600, "ns")}}, launches, 1000,
        [&] { return Hops(context); });
  added(
      context,
      {.name = "check.streams", .work = "the same, 64 streams, each behind all others", .reach = {at_most(2000, "ns")}},
      launches, 2000, [&] { return Launches(context, 64, true); });
  added(context,
        {.name = "check.ranges",
         .work = context.counts(100'000) + " copies of 8 bytes into neighbouring ranges",
         .reach = {at_most(1000, "ns")}},
        copies, 2000, [&] { return Neighbours(context, copies); });
  read_of_all(context,
              {.name = "check.ranges.read", .work = "one launch that reads all of them", .reach = {at_most(1, "ms")}},
              copies, [&] { return Neighbours(context, copies); });
  added(context,
        {.name = "check.stripes",
         .work = "copies into 10,000 ranges, by two streams in turn: never mergeable",
         .reach = {at_most(2000, "ns")}},
        copies, 2000, [&] { return Stripes(context); });
  added(context,
        {.name = "check.graph", .work = "replay of 1,000 nodes over 32 arrays", .reach = {at_most(10'000, "ns")}},
        context.options.cut(2000), 8, [&] { return Replays(context); });
  state(context);
  memory(context);
}

}  // namespace bench
