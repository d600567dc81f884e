// The hazard cases: each program's findings against its answer, and each mend applied and run again.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/device.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "judge.hpp"
#include "support/sanitizers.hpp"

namespace {

using check_test::Case;
using check_test::cases;
using check_test::json;

struct Checked {
  weir::CheckReport report;
  json findings;
};

/// On each backend, with the same answers; at most two devices of it.
class HazardCases : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    backend_ = GetParam();
    if (weir::devices(backend_).empty()) {
      GTEST_SKIP() << "no device of backend '" << backend_ << "': " << weir::why_absent(backend_);
    }
  }
  /// As the tool does: with the real library, so that what it refuses is what it refuses.
  Checked check(const json& scenario, bool hints = true) const;
  bool can_run(const Case& one) const;

  std::string backend_;
};

INSTANTIATE_TEST_SUITE_P(on, HazardCases, testing::Values("cpu", "cuda"),
                         [](const testing::TestParamInfo<const char*>& info) { return std::string(info.param); });

Checked HazardCases::check(const json& scenario, bool hints) const {
  const weir::Recording recording = weir::parse_recording(scenario.dump());
  weir::ScenarioChecker checker(recording, {.host_order = weir::HostOrder::declared, .hints = hints, .max_findings = 0},
                                "case.json");
  weir::run_scenario(recording, {.device = backend_ + (backend_ == "cpu" ? "" : ":0"), .file = "case.json"}, &checker);
  const weir::CheckReport report = checker.report();
  return {report, json::parse(weir::to_json(report))};
}

bool HazardCases::can_run(const Case& one) const {
  if (backend_ == "cuda" && one.id == "n-36")
    return false;  // it records in a conditional node's body, which CUDA cannot
  const json& scenario = one.scenario;
  const std::size_t devices = scenario.contains("devices") ? scenario["devices"].size() : 1;
  return devices <= weir::devices(backend_).size();
}

std::string listed(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  return text;
}

TEST_P(HazardCases, are_answered) {
  std::size_t judged = 0;
  for (const Case& one : cases()) {
    const bool races = !one.expect["races"].empty();
    if (!can_run(one) || (weir_test::under_thread_sanitizer && races)) continue;
    ++judged;
    const Checked found = check(one.scenario);
    const std::vector<std::string> wrong = check_test::judge(found.findings, one.expect);
    EXPECT_TRUE(wrong.empty()) << one.id << listed(wrong);
  }
  EXPECT_GE(judged, 38u);
}

TEST_P(HazardCases, have_mends_that_mend) {
  std::size_t mended = 0;
  for (const Case& one : cases()) {
    if (!can_run(one) || weir_test::under_thread_sanitizer) continue;
    const Checked found = check(one.scenario, false);
    for (const json& finding : found.findings["findings"]) {
      if (finding["mend"].is_null()) continue;
      EXPECT_TRUE(finding["mend"]["verified"].get<bool>());
      const json scenario = check_test::mended(one.scenario, finding["mend"]);
      ASSERT_FALSE(scenario.is_null()) << one.id << finding["mend"].dump();
      const Checked again = check(scenario, false);
      ++mended;
      for (const json& left : again.findings["findings"]) {
        EXPECT_FALSE(check_test::same_finding(left, finding)) << one.id << " " << left["key"];
        const json& before = found.findings["findings"];
        const bool known = std::any_of(before.begin(), before.end(),
                                       [&](const json& old) { return check_test::same_finding(old, left); });
        EXPECT_TRUE(known) << one.id << ": new after the mend of " << finding["key"] << ": " << left["key"];
      }
    }
  }
  EXPECT_GE(mended, 26u);
}

TEST_P(HazardCases, that_race_without_a_host_access_first_have_mends) {
  for (const Case& one : cases()) {
    if (!can_run(one) || weir_test::under_thread_sanitizer) continue;
    const Checked found = check(one.scenario, false);
    for (const json& finding : found.findings["findings"]) {
      if (!check_test::is_race(finding) || finding["first"]["host"].get<bool>()) continue;
      if (finding["first"]["op"] == "free") continue;  // no order mends a use of memory that is gone
      EXPECT_FALSE(finding["mend"].is_null()) << one.id << " " << finding["key"];
    }
  }
}

TEST_P(HazardCases, are_the_same_in_the_text_for_people) {
  for (const Case& one : cases()) {
    if (!can_run(one) || weir_test::under_thread_sanitizer) continue;
    const Checked found = check(one.scenario);
    const std::string text = weir::to_text(found.report);
    for (const weir::Finding& finding : found.report.findings) {
      EXPECT_NE(text.find("key " + finding.key + "\n"), std::string::npos) << one.id;
    }
  }
}

// In a capture the stream is waited for if nothing was captured on it since, else a record behind the use.
TEST(CapturedMends, wait_for_a_stream_that_did_nothing_since) {
  for (const bool goes_on : {false, true}) {
    json scenario = json::parse(R"({"format": "weir.scenario", "version": 1, "streams": [
      {"name": "s", "kind": "non_blocking"}, {"name": "t", "kind": "non_blocking"}], "events": [],
      "buffers": [{"name": "a", "kind": "device", "bytes": 64}, {"name": "b", "kind": "device", "bytes": 64}],
      "program": [{"op": "begin_capture", "stream": "s"}, {"op": "wait", "stream": "t", "for": "s"},
        {"id": "w", "op": "launch", "stream": "t", "uses": [{"buffer": "a", "access": "out"}]},
        {"op": "launch", "stream": "t", "uses": [{"buffer": "b", "access": "out"}]},
        {"id": "r", "op": "launch", "stream": "s", "uses": ["a"]}, {"op": "wait", "stream": "s", "for": "t"},
        {"op": "end_capture", "stream": "s", "graph": "g"}, {"op": "launch_graph", "stream": "s", "graph": "g"}]})");
    if (!goes_on) scenario["program"].erase(3);
    const weir::Recording recording = weir::parse_recording(scenario.dump());
    weir::ScenarioChecker checker(recording, {.host_order = weir::HostOrder::declared});
    checker.all();
    const json found = json::parse(weir::to_json(checker.report()))["findings"];
    ASSERT_EQ(found.size(), 1u) << found;
    const json wait = {{"op", "wait"}, {"stream", "s"}};
    json for_stream = wait, for_event = wait;
    for_stream["for"] = "t";
    for_event["event"] = "mend1";
    const json record = {{"op", "record"}, {"stream", "t"}, {"event", "mend1"}};
    const json expected = goes_on ? json{{{"after", "w"}, {"op", record}}, {{"before", "r"}, {"op", for_event}}}
                                  : json::array({{{"before", "r"}, {"op", for_stream}}});
    EXPECT_EQ(found[0]["mend"]["insert"], expected);
  }
}

}  // namespace
