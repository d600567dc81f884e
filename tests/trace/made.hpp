// Timelines made by hand, and by chance.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>

namespace trace_test {

using weir::trace::Lane;
using weir::trace::Tie;
using weir::trace::Timeline;

/// In nanoseconds.
inline constexpr std::int64_t us = 1000, ms = 1000 * us;

/// What `read` throws of a timeline that cannot be read; empty if it can, and can be summed up and explained.
template <class Read>
std::string what_is_wrong(Read read) {
  try {
    const Timeline timeline = read();
    static_cast<void>(to_json(summarize(timeline), timeline));
    static_cast<void>(to_json(explain(timeline), timeline));
    return "";
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.errc(), weir::Errc::invalid_value) << error.what();
    return error.what();
  }
}

/// Lines count the commands, from 1 on, in the file "made.cpp".
class Made {
 public:
  explicit Made(int streams = 2, int devices = 1) {
    file_ = text("made.cpp");
    for (int d = 0; d < devices; ++d) timeline.devices.push_back(text("sim:" + std::to_string(d)));
    for (int s = 0; s < streams; ++s) {
      const auto id = static_cast<std::uint64_t>(s) + 1;
      timeline.streams.push_back(
          {text("s" + std::to_string(s)), id, static_cast<std::uint32_t>(s % devices), 0, true, false});
    }
  }

  std::uint32_t add(std::uint32_t stream, Lane lane, std::int64_t call, std::int64_t begin, std::int64_t end,
                    std::initializer_list<weir::trace::Dependency> behind = {}, std::uint64_t bytes = 0) {
    weir::trace::Command command;
    const auto place = static_cast<std::uint32_t>(timeline.commands.size());
    command.id = place + 1;
    command.name = text("c" + std::to_string(place));
    command.file = file_;
    command.line = place + 1;
    command.stream = stream;
    command.thread = 1;
    command.lane = lane;
    command.state = weir::trace::State::ran;
    command.bytes = bytes;
    command.call = call;
    command.begin = begin;
    command.end = end;
    command.first_dependency = static_cast<std::uint32_t>(timeline.dependencies.size());
    for (const auto& one : behind) timeline.dependencies.push_back(one);
    command.dependency_count = static_cast<std::uint32_t>(behind.size());
    timeline.commands.push_back(command);
    timeline.duration = std::max(timeline.duration, end);
    return place;
  }
  std::uint32_t text(const std::string& words) {
    timeline.texts.push_back(words);
    return static_cast<std::uint32_t>(timeline.texts.size() - 1);
  }

  Timeline timeline;

 private:
  std::uint32_t file_;
};

using weir::trace::Held;

/// Of one command.
inline std::vector<Held> held_of(const Timeline& timeline, std::uint32_t place) {
  std::vector<Held> held = explain(timeline);
  held.erase(std::remove_if(held.begin(), held.end(), [&](const Held& one) { return one.command != place; }),
             held.end());
  return held;
}
inline Held only_of(const Timeline& timeline, std::uint32_t place) {
  const std::vector<Held> held = held_of(timeline, place);
  EXPECT_EQ(held.size(), 1u) << to_text(held, timeline);
  return held.empty() ? Held() : held.front();
}

inline void add_wait(Made& made, const std::string& what, std::uint32_t command, std::int64_t begin, std::int64_t end) {
  weir::trace::HostWait wait;
  wait.what = made.text(what);
  wait.command = command;
  wait.file = made.timeline.commands.front().file;
  wait.line = 77;
  wait.thread = 1;
  wait.begin = begin;
  wait.end = end;
  made.timeline.waits.push_back(wait);
}

inline void name_device(Made& made, const std::string& name) { made.timeline.devices.front() = made.text(name); }

/// Of any shape, with small moments so that much coincides.
inline Timeline by_chance(unsigned seed) {
  std::mt19937 random(seed);
  const auto below = [&](unsigned n) { return static_cast<std::uint32_t>(random() % n); };
  const int streams = 1 + static_cast<int>(below(4));
  Made made(streams, 1 + static_cast<int>(below(2)));
  const std::uint32_t count = below(30);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int64_t call = 10 * i;
    const std::int64_t begin = call + below(100);
    const bool order = below(5) == 0;
    const std::int64_t end = begin + (order ? 0 : below(60));
    const Lane lane = order ? Lane::order : static_cast<Lane>(below(9));
    made.add(below(static_cast<unsigned>(streams)), lane, call, begin, end, {}, below(1000));
    weir::trace::Command& command = made.timeline.commands.back();
    for (std::uint32_t on = 0; on < i; ++on) {
      if (below(i) > 1 || made.timeline.commands[on].end > begin) continue;
      made.timeline.dependencies.push_back({on, static_cast<Tie>(below(4))});
      ++command.dependency_count;
    }
    if (below(12) == 0) {
      command.state = weir::trace::State::pending;
      command.begin = command.end = 0;
    }
    for (std::uint32_t node = below(8) == 0 ? below(4) : 0; node > 0; --node) {
      const std::int64_t since = begin + below(20);
      made.timeline.nodes.push_back({i, node, below(2) == 0 ? 0 : weir::trace::none, 0, node,
                                     static_cast<Lane>(below(9)), since, since + below(30)});
      weir::trace::NodeRun& run = made.timeline.nodes.back();
      run.first_dependency = static_cast<std::uint32_t>(made.timeline.node_dependencies.size());
      run.dependency_count = node % 3;
      for (std::uint32_t on = 0; on < run.dependency_count; ++on) made.timeline.node_dependencies.push_back(on);
    }
  }
  if (below(2) == 0 && count > 0) {
    made.timeline.commands[below(count)].arguments = made.text("in 4, out 8");
    made.timeline.commands[below(count)].arguments = made.text("inout " + std::to_string(seed));
  }
  if (below(2) == 0) {
    made.timeline.best_rates.resize(made.timeline.devices.size());
    made.timeline.best_rates.back() = {1 + below(1000), below(1000), made.text("a link")};
  }
  return made.timeline;
}

}  // namespace trace_test
