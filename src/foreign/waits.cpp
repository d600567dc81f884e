// Waits of the host, with the command that each was for.
#include "foreign/waits.hpp"

#include <algorithm>

#include "trace/intervals.hpp"

namespace weir::foreign {

using trace::Command;
using trace::none;

WaitFinder::WaitFinder(trace::Timeline& made, Names& names)
    : made_(made), names_(names), of_device_(made.devices.size()), of_stream_(made.streams.size()) {
  for (std::uint32_t i = 0; i < made.commands.size(); ++i) {
    const Command& command = made.commands[i];
    of_stream_[command.stream].push_back(i);
    if (!trace::is_work(command)) continue;
    ends_.emplace_back(command.end, i);
    add_last(i);
  }
  std::sort(ends_.begin(), ends_.end());
}

void WaitFinder::add_last(std::uint32_t place) {
  const Command& command = made_.commands[place];
  if (command.call < 0) return;
  std::vector<Last>& lasts = of_device_[made_.streams[command.stream].device];
  const bool later = lasts.empty() || made_.commands[lasts.back().command].end < command.end;
  if (later) lasts.push_back({command.call, place});
}

std::uint32_t WaitFinder::ended_by(std::int64_t moment) const {
  const auto behind = std::upper_bound(ends_.begin(), ends_.end(), std::pair(moment, none));
  return behind == ends_.begin() ? none : std::prev(behind)->second;
}

void WaitFinder::add(trace::HostWait& wait, const std::string& what) {
  wait.what = names_.text(what);
  made_.waits.push_back(wait);
}

void WaitFinder::add_event(trace::HostWait wait, std::uint32_t record) {
  wait.command = record;
  add(wait, "event");
}

void WaitFinder::add_stream(trace::HostWait wait, std::uint32_t stream) {
  wait.stream = stream;
  const std::vector<std::uint32_t>& places = of_stream_[stream];
  const auto behind =
      std::lower_bound(places.begin(), places.end(), wait.begin, [this](std::uint32_t place, std::int64_t moment) {
        const Command& command = made_.commands[place];
        return (command.call < 0 ? command.begin : command.call) < moment;
      });
  if (behind != places.begin()) wait.command = *std::prev(behind);
  add(wait, std::string(names_.at(made_.streams[stream].name)));
}

void WaitFinder::add_device(trace::HostWait wait, const std::string& device) {
  wait.command = ended_by(wait.end);
  add(wait, "device " + device);
}

void WaitFinder::add_copy(std::uint32_t place) {
  const Command& command = made_.commands[place];
  trace::HostWait wait;
  wait.stream = command.stream;
  wait.command = place;
  wait.thread = command.thread;
  wait.begin = command.call;
  wait.end = command.called;
  add(wait, command.pageable ? "pageable copy" : "copy");
}

void WaitFinder::add_allocation(trace::HostWait wait) {
  for (const std::vector<Last>& lasts : of_device_) {
    const auto behind = std::lower_bound(lasts.begin(), lasts.end(), wait.begin,
                                         [](const Last& one, std::int64_t moment) { return one.called < moment; });
    if (behind == lasts.begin()) continue;
    const std::uint32_t last = std::prev(behind)->command;
    const std::int64_t end = made_.commands[last].end;
    const bool waited = end > wait.begin && end <= wait.end;
    if (waited && (wait.command == none || made_.commands[wait.command].end < end)) wait.command = last;
  }
  if (wait.command != none) add(wait, "allocation");
}

void WaitFinder::finish() {
  std::stable_sort(made_.waits.begin(), made_.waits.end(),
                   [](const trace::HostWait& a, const trace::HostWait& b) { return a.begin < b.begin; });
}

}  // namespace weir::foreign
