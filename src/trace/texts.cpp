// What lanes and ties are called.
#include <weir/trace.hpp>

namespace weir::trace {

std::string_view to_text(Lane lane) {
  static constexpr std::string_view words[lane_count] = {
      "kernel",        "copy to device", "copy to host", "copy on device", "copy on host", "fill",
      "host function", "external",       "graph",        "memory",         "order"};
  return words[static_cast<std::size_t>(lane)];
}

std::string_view to_text(Tie tie) {
  static constexpr std::string_view words[tie_count] = {"stream order", "event", "default stream", "memory", "replay"};
  return words[static_cast<std::size_t>(tie)];
}

}  // namespace weir::trace
