// Runs of scenarios: every case runs, and the library refuses what it has to, by name.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/device.hpp>
#include <weir/recording.hpp>
#include <weir/scenario.hpp>

#include "cases.hpp"
#include "everything.hpp"
#include "support/errors.hpp"
#include "support/sanitizers.hpp"

namespace {

using recording_test::Case;
using recording_test::cases;
using recording_test::scenario;
using weir::Errc;
using weir::Misuse;
using weir::Recording;
using weir::RunResult;

std::size_t cpu_devices() { return weir::devices("cpu").size(); }

RunResult run(const std::string& text, const weir::RunOptions& options = {}, weir::RunHooks* hooks = nullptr) {
  const Recording recording = weir::parse_recording(text);
  return weir::run_scenario(recording, options, hooks);
}

TEST(ScenarioRuns, of_every_case_end_and_are_refused_what_the_case_says) {
  std::size_t ran = 0;
  for (const Case& one : cases()) {
    // Races between copies are there on purpose, and ThreadSanitizer sees them.
    if (weir_test::under_thread_sanitizer && !one.clean) continue;
    const Recording recording = weir::parse_recording(one.text);
    if (weir::devices_of(recording) > cpu_devices()) continue;
    ++ran;
    const RunResult result = weir::run_scenario(recording);
    EXPECT_EQ(result.failures, std::vector<std::string>()) << one.id;
    std::vector<std::pair<std::string, std::string>> refused;
    for (const Misuse& misuse : result.misuse) {
      refused.emplace_back(recording.id(misuse.command), weir::name_of(misuse.errc));
      const bool expected = std::count(one.refused.begin(), one.refused.end(), refused.back()) > 0 ||
                            std::count(one.consequences.begin(), one.consequences.end(), refused.back()) > 0;
      EXPECT_TRUE(expected) << one.id << ": " << misuse.what;
    }
    for (const auto& must : one.refused) {
      EXPECT_EQ(std::count(refused.begin(), refused.end(), must), 1)
          << one.id << ": " << must.first << " " << must.second;
    }
  }
  EXPECT_GE(ran, cpu_devices() >= 2 ? (weir_test::under_thread_sanitizer ? 40u : 80u) : 38u);
}

TEST(ScenarioRuns, tell_hooks_the_line_that_the_call_has) {
  struct Hooks : weir::RunHooks {
    void before(std::size_t command, weir::SourceLocation where) override {
      lines.push_back(std::to_string(command) + " " + where.file_name() + ":" + std::to_string(where.line()));
    }
    void after(std::size_t command, const Misuse* misuse) override {
      if (misuse != nullptr) lines.push_back(std::to_string(command) + " " + misuse->what);
    }
    std::vector<std::string> lines;
  } hooks;
  const RunResult result =
      run(scenario({.program = R"({"op": "launch", "stream": "s", "uses": ["a"], "file": "sim.cpp", "line": 61},
      {"op": "free", "buffer": "a", "stream": "s"}, {"op": "free", "buffer": "a", "stream": "s"})"}),
          {.file = "f.json"}, &hooks);
  ASSERT_EQ(result.misuse.size(), 1u);
  EXPECT_EQ(result.misuse[0].command, 2u);
  EXPECT_EQ(result.misuse[0].errc, Errc::already_freed);
  ASSERT_EQ(hooks.lines.size(), 4u);
  EXPECT_EQ(hooks.lines[0], "0 sim.cpp:61");
  EXPECT_EQ(hooks.lines[2], "2 f.json:3");
  EXPECT_NE(hooks.lines[3].find("[f.json:3]"), std::string::npos) << hooks.lines[3];
}

TEST(ScenarioRuns, last_as_long_as_costs_say_and_are_timed) {
  const RunResult result = run(scenario({.program = R"({"op": "launch", "stream": "s", "cost": {"ns": 2000000}},
      {"op": "host_function", "stream": "s", "cost": {"ns": 3000000}}, {"op": "work", "ns": 1000000}, {"op": "synchronize", "stream": "s"})"}),
                               {.times = true});
  ASSERT_EQ(result.times.size(), 4u);
  ASSERT_TRUE(result.times[0].run_begin && result.times[1].run_begin);
  EXPECT_GE(*result.times[0].run_end - *result.times[0].run_begin, 2000000);
  EXPECT_GE(*result.times[1].run_end - *result.times[1].run_begin, 3000000);
  EXPECT_GE(result.times[2].call_end - result.times[2].call_begin, 1000000);
  EXPECT_GE(result.ns, 5000000);
}

TEST(ScenarioRuns, refuse_what_would_last_for_ever_and_devices_that_are_not_there) {
  const auto longer = [] { run(scenario({.program = R"({"op": "work", "ns": 1e18})"})); };
  EXPECT_TRUE(weir_test::fails_with(Errc::invalid_value, longer, {"#0", "last longer"}));
  std::string devices = "{\"name\": \"d0\"}";
  for (int i = 1; i < 100; ++i) devices += ", {\"name\": \"d" + std::to_string(i) + "\"}";
  const auto many = [&] { run(scenario({.more = "\"devices\": [" + devices + "]"})); };
  EXPECT_TRUE(weir_test::fails_with(Errc::unknown_device, many, {"100 devices"}));
}

TEST(ScenarioRuns, take_priorities_beyond_those_of_the_device) {
  const RunResult result =
      run(scenario({.program = R"({"op": "launch", "stream": "s"}, {"op": "launch", "stream": "t"})",
                    .streams = R"({"name": "s", "kind": "blocking", "priority": 1000000000000},
      {"name": "t", "kind": "non_blocking", "priority": -5000000000})"}));
  EXPECT_TRUE(result.misuse.empty() && result.failures.empty());
}

TEST(ScenarioRuns, of_every_op_make_its_call) {
  if (cpu_devices() < 2) GTEST_SKIP() << "it needs two devices";
  const Recording recording = weir::parse_recording(recording_test::everything);
  const RunResult result = weir::run_scenario(recording);
  EXPECT_EQ(result.failures, std::vector<std::string>());
  for (const Misuse& misuse : result.misuse) ADD_FAILURE() << recording.id(misuse.command) << " " << misuse.what;
}

}  // namespace
