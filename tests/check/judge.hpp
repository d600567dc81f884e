// The hazard cases of tests/data with their answers, and the judge of sections 5 and 8 of the rules: findings against answers.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <weir/check.hpp>

namespace check_test {

using nlohmann::json;

struct Case {
  std::string id;
  json scenario;
  json expect;
};
const std::vector<Case>& cases();

/// What is wrong with a report, one line each: findings that are not true, and what was missed.
std::vector<std::string> judge(const json& report, const json& expect);
/// The same of races alone, by the expected ones of a reference.
void judge_races(const json& findings, const json& races, std::vector<std::string>& wrong);

/// The scenario with a mend's commands and edges in it; null if it cannot be applied.
json mended(const json& scenario, const json& mend);
/// Whether two findings are about the same pair and buffer.
bool same_finding(const json& a, const json& b);

bool is_race(const json& finding);

}  // namespace check_test
