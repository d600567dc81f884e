// The hazard cases of tests/data, as they are in the file. For programs with WEIR_TEST_DATA.
#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

namespace weir_test {

inline nlohmann::json hazard_cases(const std::string& name = "hazard_cases.json") {
  std::ifstream file(std::string(WEIR_TEST_DATA) + "/" + name);
  return nlohmann::json::parse(file).at("cases");
}

}  // namespace weir_test
