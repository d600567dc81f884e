// Launches with arguments, and what a tool that is attached adds to the caller's own time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <weir/array.hpp>

#include "bench.hpp"
#include "work.hpp"

namespace bench {

using Floats = weir::Array<float>;
using In = weir::View<const float>;
using Out = weir::View<float>;

struct Touch {
  void operator()(std::size_t, In, In, In, In, Out, Out, Out, Out) const { tally(); }
};

inline std::vector<weir::Stream> streams_of(Context& context, std::size_t count) {
  std::vector<weir::Stream> made;
  for (std::size_t i = 0; i < count; ++i) made.emplace_back(context.device, weir::StreamOptions{.blocking = false});
  return made;
}

inline std::vector<Floats> arrays_on(const weir::Stream& stream, std::size_t count) {
  std::vector<Floats> made;
  for (std::size_t i = 0; i < count; ++i) made.push_back(weir::zeros<float>(stream, 16));
  return made;
}

inline void touch(const weir::Stream& stream, const std::vector<Floats>& shared, const std::vector<Floats>& own) {
  weir::launch(stream, 1, Touch{}, weir::in(shared[0]), weir::in(shared[1]), weir::in(shared[2]), weir::in(shared[3]),
               weir::out(own[0]), weir::out(own[1]), weir::inout(own[2]), weir::inout(own[3]));
}

/// With 8 arguments on streams in turn, which read the same arrays and write their own.
class Launches {
 public:
  static constexpr std::size_t tasks = 1;

  Launches(Context& context, std::size_t streams, bool behind_all_others) : streams_(streams_of(context, streams)) {
    shared_ = arrays_on(streams_[0], 4);
    for (const weir::Stream& stream : streams_) own_.push_back(arrays_on(stream, 4));
    weir::synchronize();
    if (!behind_all_others) return;
    for (std::size_t i = 0; i < 2 * streams; ++i) {
      touch(streams_[i % streams], shared_, own_[i % streams]);
      streams_[(i + 1) % streams].wait(streams_[i % streams]);
    }
  }
  void operator()(std::size_t i) const { touch(streams_[i % streams_.size()], shared_, own_[i % streams_.size()]); }

 private:
  std::vector<weir::Stream> streams_;
  std::vector<Floats> shared_;
  std::vector<std::vector<Floats>> own_;
};

/// What `make()` made is called for each number below `count`: nanoseconds of the caller's own that a tool adds to a call. A Tool is
/// attached while it lives, says what it is called, and looks at what it has seen.
template <class Tool, class Make>
void added_by(Context& context, Row row, std::size_t count, std::size_t at_once, const Make& make) {
  const std::size_t batches = (count + at_once - 1) / at_once;
  const auto once = [&] {
    const auto act = make();
    weir::synchronize();
    const double time = counted(count * act.tasks + batches, [&] {
      return caller_seconds(count, at_once, act, [] {
        weir::launch(1, [](std::size_t) { tally(); });
        weir::synchronize();
      });
    });
    return time * 1e9 / static_cast<double>(count);
  };
  const Pair pair = by_turns(context.options, once, [&] {
    Tool tool;
    const double time = once();
    tool.look();
    return time;
  });
  row.work += std::string(", added to the caller's own time by a ") + Tool::name;
  row.unit = "ns";
  row.value = {pair.ours.median - pair.raw.median, pair.ours.low - pair.raw.median, pair.ours.high - pair.raw.median};
  row.note = "without " + std::to_string(pair.raw.median).substr(0, 6) + " ns";
  context.report.add(row);
}

}  // namespace bench
