// Which line of one run is which line of another one, whose source may be elsewhere, and may have been changed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <weir/trace.hpp>

namespace weir::trace {

/// Commands of one name and one line of the source.
struct SourcePlace {
  std::string name;
  Lane lane = Lane::kernel;
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t order = 0;  ///< among those of one name that have no line
  std::uint64_t commands = 0;
  std::uint64_t bytes = 0;  ///< of all of them
  std::int64_t ran = 0;     ///< ns, likewise
};

/// For each of `after` its place in `before`, or none; each of `before` is found once at most. Both are sorted by name, lane, file,
/// line and order.
std::vector<std::uint32_t> match(const std::vector<SourcePlace>& before, const std::vector<SourcePlace>& after);

}  // namespace weir::trace
