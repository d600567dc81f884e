// Random scenarios, by a seed.
#pragma once

#include <cstdint>

#include <nlohmann/json.hpp>

namespace check_test {

struct Recipe {
  std::uint64_t seed = 0;
  std::size_t commands = 30;
  bool ordered = false;  ///< whatever would race is ordered first, or left out
};

nlohmann::json generate(const Recipe& recipe);
/// The places of commands that order something.
std::vector<std::size_t> orders(const nlohmann::json& scenario);

}  // namespace check_test
