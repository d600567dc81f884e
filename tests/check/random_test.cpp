// Random programs: the checker against the transitive closure, and each order left out once.
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/recording.hpp>

#include "check/scenario/feed.hpp"
#include "generate.hpp"
#include "judge.hpp"
#include "reference.hpp"
#include "support/sanitizers.hpp"

namespace {

using check_test::generate;
using check_test::json;
using check_test::Recipe;
using check_test::Reference;

/// A soak asks for more programs, WEIR_CHECK_PROGRAMS, and each of its processes for others, from WEIR_CHECK_FIRST on.
std::uint64_t first_of(std::uint64_t usual) {
  const char* const asked = std::getenv("WEIR_CHECK_FIRST");
  return asked != nullptr ? std::strtoull(asked, nullptr, 10) : usual;
}
std::uint64_t programs(std::uint64_t usual) {
  const char* const asked = std::getenv("WEIR_CHECK_PROGRAMS");
  if (asked != nullptr) return std::strtoull(asked, nullptr, 10);
  return weir_test::under_address_sanitizer ? usual / 12 : usual;
}

constexpr std::size_t nothing = ~std::size_t{0};

/// Empty if the checker says what the closure says of the program without the command `left_out`.
std::vector<std::string> compare(const weir::Recording& recording, bool* raced, weir::HostOrder order,
                                 const weir::check::Rules& rules, std::size_t left_out = nothing) {
  weir::check::ScenarioFeed checker(recording, {.host_order = order, .hints = true, .max_findings = 0}, "s", "cpu", {},
                                    rules);
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (i != left_out) checker.call(i, nullptr);
  }
  const weir::CheckReport report = checker.report();
  const json findings =
      report.findings.empty() ? json{{"findings", json::array()}} : json::parse(weir::to_json(report));
  Reference reference(recording, order);
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (i != left_out) reference.call(i);
  }
  const json races = reference.races();
  if (raced != nullptr) *raced = !races.empty();
  std::vector<std::string> wrong;
  check_test::judge_races(findings["findings"], races, wrong);
  std::set<std::string> redundant, empty;
  for (const json& finding : findings["findings"]) {
    if (finding["kind"] == "redundant_wait") redundant.insert(finding["second"]["command"]);
    if (finding["kind"] == "empty_wait") empty.insert(finding["second"]["command"]);
  }
  if (redundant != reference.redundant()) {
    wrong.push_back("redundant waits " + json(redundant).dump() + ", not " + json(reference.redundant()).dump());
  }
  if (empty != reference.empty()) wrong.push_back("empty waits " + json(empty).dump());
  return wrong;
}

std::vector<std::string> compare(const json& scenario, bool* raced = nullptr,
                                 weir::HostOrder order = weir::HostOrder::declared,
                                 const weir::check::Rules& rules = {}) {
  return compare(weir::parse_recording(scenario.dump()), raced, order, rules);
}

std::string listed(const std::vector<std::string>& lines, const json& scenario) {
  std::string text;
  for (const std::string& line : lines) text += "\n  " + line;
  std::size_t place = 0;
  for (const json& command : scenario["program"]) text += "\n    #" + std::to_string(place++) + " " + command.dump();
  return text;
}

TEST(RandomHazards, of_programs_without_order_are_found_and_are_true) {
  std::uint64_t raced = 0;
  const std::uint64_t all = programs(3000);
  for (std::uint64_t seed = 1; seed <= all; ++seed) {
    const json scenario = generate({.seed = seed, .commands = 12 + seed % 20});
    bool any = false;
    const std::vector<std::string> wrong = compare(scenario, &any);
    raced += any ? 1 : 0;
    ASSERT_TRUE(wrong.empty()) << "seed " << seed << listed(wrong, scenario);
  }
  EXPECT_GT(raced, all / 2);
}

// Of a soak: an update brings other bytes into a race of two nodes that an earlier launch told.
TEST(RandomHazards, of_a_graph_that_is_updated_between_its_launches_are_those_of_other_bytes) {
  const json scenario = generate({.seed = 22835, .commands = 27});
  const std::vector<std::string> wrong = compare(scenario);
  EXPECT_TRUE(wrong.empty()) << listed(wrong, scenario);
}

// Of a soak: an event of a graph that is behind all that the graph uses orders as the launch does.
TEST(RandomHazards, of_graphs_with_an_event_at_their_end_are_as_of_the_launch) {
  const json scenario = generate({.seed = 28519, .commands = 31});
  const std::vector<std::string> wrong = compare(scenario);
  EXPECT_TRUE(wrong.empty()) << listed(wrong, scenario);
}

TEST(RandomHazards, in_observed_order_are_found_and_are_true) {
  for (std::uint64_t seed = 1; seed <= programs(1000); ++seed) {
    const json scenario = generate({.seed = 1000000 + seed, .commands = 12 + seed % 20});
    const std::vector<std::string> wrong = compare(scenario, nullptr, weir::HostOrder::observed);
    ASSERT_TRUE(wrong.empty()) << "seed " << seed << listed(wrong, scenario);
  }
}

/// The right program is silent; without one of its orders the checker says what the closure says. `each`: without each of them,
/// one at a time; else without one that the seed picks.
void leave_out(std::uint64_t first, std::uint64_t count, bool each) {
  std::uint64_t raced = 0, left_out = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const json scenario = generate({.seed = seed, .commands = 14 + seed % 12, .ordered = true});
    const weir::Recording recording = weir::parse_recording(scenario.dump());
    bool any = false;
    std::vector<std::string> wrong = compare(recording, &any, weir::HostOrder::declared, {});
    ASSERT_TRUE(wrong.empty()) << "seed " << seed << listed(wrong, scenario);
    ASSERT_FALSE(any) << "seed " << seed << listed({}, scenario);
    const std::vector<std::size_t> orders = check_test::orders(scenario);
    for (std::size_t i = 0; i < orders.size(); ++i) {
      if (!each && i != seed / 7 % orders.size()) continue;
      wrong = compare(recording, &any, weir::HostOrder::declared, {}, orders[i]);
      ++left_out;
      raced += any ? 1 : 0;
      ASSERT_TRUE(wrong.empty()) << "seed " << seed << " without #" << orders[i] << listed(wrong, scenario);
    }
  }
  EXPECT_GT(raced, left_out / 20);
}

// 20,000 programs in four parts, so that none takes long where all run beside each other; with AddressSanitizer, which sees the same
// in each part, 400 in all.
constexpr std::uint64_t part = weir_test::under_address_sanitizer ? 1200 : 5000, ordered_seeds = 20'000'000;

TEST(RandomHazards, of_ordered_programs_are_none_until_any_order_is_left_out) {
  leave_out(2'000'000, programs(400), true);
}
TEST(RandomHazards, of_programs_1_to_5000_are_none_until_an_order_is_left_out) {
  leave_out(first_of(ordered_seeds + 1), programs(part), false);
}
TEST(RandomHazards, of_programs_5001_to_10000_are_none_until_an_order_is_left_out) {
  leave_out(ordered_seeds + 1 + part, programs(part), false);
}
TEST(RandomHazards, of_programs_10001_to_15000_are_none_until_an_order_is_left_out) {
  leave_out(ordered_seeds + 1 + 2 * part, programs(part), false);
}
TEST(RandomHazards, of_programs_15001_to_20000_are_none_until_an_order_is_left_out) {
  leave_out(ordered_seeds + 1 + 3 * part, programs(part), false);
}

// Of a soak of a million: who is behind one record of a graph is behind all that its other records stand for, where that is no more.
TEST(RandomHazards, in_graphs_with_several_records_have_the_waits_that_are_redundant) {
  for (const std::uint64_t seed : {17957033380420737u, 17957033381218472u}) {
    const json scenario = generate({.seed = seed, .commands = 14 + seed % 12, .ordered = true});
    const weir::Recording recording = weir::parse_recording(scenario.dump());
    std::vector<std::size_t> orders = check_test::orders(scenario);
    orders.push_back(nothing);
    for (const std::size_t left_out : orders) {
      const std::vector<std::string> wrong = compare(recording, nullptr, weir::HostOrder::declared, {}, left_out);
      EXPECT_TRUE(wrong.empty()) << "seed " << seed << listed(wrong, scenario);
    }
  }
}

TEST(RandomHazards, have_mends_that_mend) {
  std::uint64_t mended = 0;
  for (std::uint64_t seed = 1; seed <= programs(400); ++seed) {
    const json scenario = generate({.seed = 3000000 + seed, .commands = 10 + seed % 10});
    const weir::Recording recording = weir::parse_recording(scenario.dump());
    weir::ScenarioChecker checker(recording, {.host_order = weir::HostOrder::declared, .max_findings = 0});
    checker.all();
    const json findings = json::parse(weir::to_json(checker.report()))["findings"];
    Reference reference(recording);
    for (std::size_t i = 0; i < recording.size(); ++i) reference.call(i);
    for (const json& finding : findings) {
      if (finding["mend"].is_null()) continue;
      const json repaired = check_test::mended(scenario, finding["mend"]);
      ASSERT_FALSE(repaired.is_null()) << "seed " << seed << finding.dump();
      const weir::Recording again = weir::parse_recording(repaired.dump());
      weir::ScenarioChecker second(again, {.host_order = weir::HostOrder::declared, .max_findings = 0});
      second.all();
      ++mended;
      const json report = json::parse(weir::to_json(second.report()));
      for (const json& left : report["findings"]) {
        ASSERT_FALSE(check_test::same_finding(left, finding))
            << "seed " << seed << " " << finding["mend"].dump() << left["key"] << listed({}, scenario);
      }
      // Nothing that did not race before does now.
      Reference closure(again);
      for (std::size_t i = 0; i < again.size(); ++i) closure.call(i);
      for (const json& race : closure.races()) {
        bool known = false;
        for (const json& old : reference.races()) {
          known = known ||
                  (old["second"] == race["second"] && old["node"] == race["node"] && old["buffer"] == race["buffer"]);
        }
        ASSERT_TRUE(known) << "seed " << seed << finding["mend"].dump() << race.dump() << listed({}, scenario);
      }
    }
  }
  EXPECT_GT(mended, programs(400) * 3 / 4);
}

/// A rule that is switched off must show: in a random program, or in one for what those leave out.
bool noticed(unsigned edge) {
  weir::check::Rules rules;
  rules.edge[edge] = false;
  const json drops =
      json::parse(R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind": "non_blocking"}],
      "events": [], "buffers": [{"name": "p", "kind": "pinned", "bytes": 64}], "program": [
        {"op": "launch", "stream": "s", "uses": [{"buffer": "p", "access": "out"}]}, {"op": "drop", "stream": "s"},
        {"op": "host_read", "uses": ["p"]}]})");
  EXPECT_TRUE(compare(drops).empty());
  if (!compare(drops, nullptr, weir::HostOrder::declared, rules).empty()) return true;
  for (std::uint64_t seed = 1; seed <= 3000; ++seed) {
    const json scenario = generate({.seed = 4000000 + seed, .commands = 14 + seed % 20});
    if (!compare(scenario, nullptr, weir::HostOrder::declared, rules).empty()) return true;
  }
  return false;
}

TEST(RandomHazards, show_each_rule_of_the_order_that_is_switched_off) {
  for (unsigned edge = 1; edge <= 14; ++edge) EXPECT_TRUE(noticed(edge)) << "edge " << edge;
}

}  // namespace
