// Profiles: those inside the library, and files.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "backends/sim/model/profile.hpp"

namespace weir::sim {

/// A profile by its name, or by the path of a file that ends in .json. Throws std::string: what is wrong.
model::Profile load_profile(const std::string& name);
/// From the text of a file.
model::Profile parse_profile(std::string_view text);

struct Embedded {
  std::string_view name;
  std::string_view text;
};
/// Generated from src/backends/sim/profiles.
extern const Embedded embedded_profiles[];
extern const std::size_t embedded_count;

}  // namespace weir::sim
