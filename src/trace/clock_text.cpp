// What a timeline says of its clock.
#include <algorithm>
#include <string>

#include "trace/session.hpp"

namespace weir::trace {

std::string clock_text(const Timeline& timeline, const Told& told, bool any_virtual) {
  const bool gpu = std::any_of(timeline.devices.begin(), timeline.devices.end(),
                               [&](Text device) { return timeline.text(device).starts_with("cuda"); });
  std::string words = "nanoseconds of the host's steady clock; on the CPU it is read before and after each command";
  if (any_virtual) words += "; simulated devices, and calls and waits for them, have their virtual clock";
  if (gpu) {
    words +=
        "; on GPUs kernels and host functions note their own times, and copies and graphs stand between events, put "
        "on that clock within " +
        std::to_string((told.clock_error + 999) / 1000) + " us";
  }
  if (told.cost >= 0) words += "; recording a command took " + std::to_string(told.cost) + " ns of its call";
  return words;
}

}  // namespace weir::trace
