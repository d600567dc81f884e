// What a command had to wait for: the work behind records, waits and memory, which take no time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <weir/trace.hpp>

#include "trace/intervals.hpp"
#include "trace/words.hpp"

namespace weir::trace {

/// Something that had to end before.
struct Bound {
  std::uint32_t command = none;  ///< work; or a record or wait, where what it comes behind was not recorded
  Tie tie = Tie::stream_order;
  std::uint32_t via = none;  ///< the record, the free, or the command itself
  std::int64_t end = -1;
};

class Bounds {
 public:
  explicit Bounds(const Timeline& timeline) : timeline_(timeline), seen_(timeline.commands.size()) {
    constexpr std::int64_t of_gpu = 100'000;
    for (std::uint32_t i = 0; i < timeline.devices.size(); ++i) slack_.push_back(is_gpu(timeline, i) ? of_gpu : 0);
  }

  struct Latest {
    Bound bound;               ///< what ended last; of no command if there was nothing
    std::int64_t before = -1;  ///< when what ended before that did
  };
  /// Of what had ended when the command began: for what ended later it did not wait. On GPUs copies and kernels have clocks that
  /// differ by microseconds, so what seems to have ended just after counts, and ended just then.
  Latest latest(std::uint32_t place) {
    constexpr int most = 4096;  // of commands without time, one behind the other
    const std::int64_t begin = timeline_.commands[place].begin;
    const std::int64_t slack = slack_[timeline_.streams[timeline_.commands[place].stream].device];
    Latest found;
    ++search_;
    left_.assign(1, {place, Tie::stream_order, none, -1});
    for (int i = 0; i < most && !left_.empty(); ++i) {
      Bound at = left_.back();
      left_.pop_back();
      const Command& one = timeline_.commands[at.command];
      const bool is_bound = at.command != place && (is_work(one) || is_for_unknown_work(one));
      if (!is_bound) {
        look_behind(at);
      } else if (one.end <= begin + slack || at.tie == Tie::replay) {
        at.end = std::min(one.end, begin);  // of a replay: its end may be read after the next one has begun
        if (at.via == none) at.via = at.command;
        if (one.lane == Lane::order && timeline_.name_of(one) == "wait") at.tie = Tie::event;
        if (at.end > found.bound.end) {
          found = {at, found.bound.end};
        } else {
          found.before = std::max(found.before, at.end);
        }
      }
    }
    return found;
  }

 private:
  /// A record or a wait behind nothing is for work that was enqueued before the recording began, and stands for it.
  static bool is_for_unknown_work(const Command& one) {
    return one.lane == Lane::order && one.event != 0 && one.state == State::ran && one.dependency_count == 0;
  }
  void look_behind(const Bound& at) {
    const auto behind = timeline_.dependencies_of(timeline_.commands[at.command]);
    for (auto on = behind.rbegin(); on != behind.rend(); ++on) {
      if (std::exchange(seen_[on->command], search_) == search_) continue;
      const bool names_it = at.tie == Tie::stream_order && on->tie != Tie::stream_order;
      left_.push_back({on->command, names_it ? on->tie : at.tie, names_it ? on->command : at.via, -1});
    }
  }

  const Timeline& timeline_;
  std::vector<std::int64_t> slack_;  ///< of each device
  std::vector<std::uint32_t> seen_;  ///< of each command, the last search that came there
  std::uint32_t search_ = 0;
  std::vector<Bound> left_;  ///< to look at
};

}  // namespace weir::trace
