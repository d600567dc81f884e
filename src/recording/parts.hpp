// Uses of four repetitions in files, which know three.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <weir/recording.hpp>

namespace weir::recorded {

inline bool fits_files(const Use& use) { return use.dimensions <= most_repeats_in_files; }

/// The repetition that is taken apart: the one of the fewest parts.
inline std::size_t repeat_in_parts(const Use& use) {
  std::size_t least = 0;
  for (std::size_t d = 1; d < use.dimensions; ++d) {
    if (use.repeat[d].count < use.repeat[least].count) least = d;
  }
  return least;
}

inline std::uint64_t parts_for_files(const Use& use) {
  return fits_files(use) ? 1 : use.repeat[repeat_in_parts(use)].count;
}

/// One of parts_for_files(use).
inline Use part_of(Use use, std::uint64_t number) {
  if (fits_files(use)) return use;
  const std::size_t apart = repeat_in_parts(use);
  use.offset += number * use.repeat[apart].stride;
  std::copy(use.repeat.begin() + static_cast<std::ptrdiff_t>(apart) + 1, use.repeat.end(),
            use.repeat.begin() + static_cast<std::ptrdiff_t>(apart));
  use.repeat.back() = {};
  --use.dimensions;
  return use;
}

/// As many bytes from where it begins: not those, but of the same use for times and sizes.
inline Use in_one_piece(Use use) {
  use.bytes = use.total();
  use.dimensions = 0;
  use.repeat = {};
  return use;
}

}  // namespace weir::recorded
