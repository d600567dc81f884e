// The hazard cases of tests/data, as they are in the file. For programs with WEIR_TEST_DATA.
#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace weir_test {

inline nlohmann::json hazard_cases() {
  std::ifstream file(std::string(WEIR_TEST_DATA) + "/hazard_cases.json");
  return nlohmann::json::parse(file).at("cases");
}

}  // namespace weir_test
