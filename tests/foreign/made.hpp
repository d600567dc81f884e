// Activities made by hand, and timelines as text.
#pragma once

#include <cstdint>
#include <string>

#include <weir/trace.hpp>

#include "foreign/activity.hpp"

namespace foreign_test {

using weir::foreign::Activity;
using Kind = Activity::Kind;

/// One context of one device, whose default stream is 7. Moments begin at 1000. What is asked for gets a call of its own: it begins
/// 10 ns behind the one before, and takes 5.
class Made {
 public:
  Made() {
    collected.contexts[1] = {0, 7};
    collected.started = 1000;
    collected.stopped = 9000;
  }
  std::uint32_t text(const std::string& words) {
    collected.texts.push_back(words);
    return static_cast<std::uint32_t>(collected.texts.size() - 1);
  }
  /// The correlation of a call.
  std::uint32_t call(const std::string& name, std::uint64_t ns = 5, std::uint32_t thread = 100) {
    Activity one;
    one.kind = Kind::api;
    one.begin = now_;
    one.end = now_ + ns;
    one.correlation = ++correlation_;
    one.thread = thread;
    one.name = text(name);
    collected.activities.push_back(one);
    now_ = one.end + 5;
    return correlation_;
  }
  Activity& add(Kind kind, std::uint32_t stream, std::uint64_t begin, std::uint64_t end, std::uint32_t correlation) {
    Activity one;
    one.kind = kind;
    one.begin = begin;
    one.end = end;
    one.correlation = correlation;
    one.context = 1;
    one.stream = stream;
    return collected.activities.emplace_back(one);
  }
  Activity& kernel(const std::string& name, std::uint32_t stream, std::uint64_t begin, std::uint64_t end) {
    const std::uint32_t called = call("cudaLaunchKernel_v7000");
    const std::uint32_t place = text(name);
    Activity& made = add(Kind::kernel, stream, begin, end, called);
    made.name = place;
    made.number = 12;
    return made;
  }
  Activity& copy(weir::trace::Lane lane, std::uint32_t stream, std::uint64_t begin, std::uint64_t end,
                 std::uint64_t calls_for = 5) {
    const std::uint32_t called = call("cudaMemcpyAsync_v3020", calls_for);
    Activity& made = add(Kind::copy, stream, begin, end, called);
    made.lane = lane;
    made.bytes = 4096;
    return made;
  }
  void record(std::uint32_t event, std::uint32_t stream, std::uint64_t number) {
    Activity& made = add(Kind::record, stream, 0, 0, call("cudaEventRecord_v3020"));
    made.object = event;
    made.number = number;
  }
  void wait(std::uint32_t event, std::uint32_t stream, std::uint64_t number) {
    Activity& made = add(Kind::wait, stream, now_, now_, call("cudaStreamWaitEvent_v3020"));
    made.object = event;
    made.number = number;
  }

  weir::foreign::Collected collected;

 private:
  std::uint32_t correlation_ = 0;
  std::uint64_t now_ = 1010;
};

inline std::string name_of(const weir::trace::Timeline& timeline, std::uint32_t place) {
  const weir::trace::Command& command = timeline.commands[place];
  return std::string(timeline.text(timeline.streams[command.stream].name)) + "." +
         std::string(timeline.name_of(command));
}

/// One line for each command: what it is, when it was asked for and ran, and what it comes behind; then waits and ranges.
inline std::string drawn(const weir::trace::Timeline& timeline) {
  std::string text;
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    const weir::trace::Command& command = timeline.commands[i];
    text += name_of(timeline, i) + " " + std::to_string(command.call) + ": ";
    text += command.state == weir::trace::State::pending
                ? "pending"
                : std::to_string(command.begin) + "-" + std::to_string(command.end);
    for (const weir::trace::Dependency& on : timeline.dependencies_of(command)) {
      text += " <" + std::string(to_text(on.tie)) + "- " + name_of(timeline, on.command);
    }
    text += "\n";
  }
  for (const weir::trace::HostWait& wait : timeline.waits) {
    text += "thread " + std::to_string(wait.thread) + " waited for " + std::string(timeline.text(wait.what)) + ": " +
            std::to_string(wait.begin) + "-" + std::to_string(wait.end);
    if (wait.command != weir::trace::none) text += " for " + name_of(timeline, wait.command);
    text += "\n";
  }
  for (const weir::trace::NamedRange& range : timeline.ranges) {
    text += "thread " + std::to_string(range.thread) + " " + std::string(timeline.text(range.name)) + ": " +
            std::to_string(range.begin) + "-" + std::to_string(range.end) + "\n";
  }
  return text;
}

}  // namespace foreign_test
