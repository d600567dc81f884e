// Random programs under the hazard checker: silent where all is ordered, and a finding where the one wait that orders two
// commands' memory is left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include <weir/check.hpp>
#include <weir/weir.hpp>

#include "campaign.hpp"
#include "execute.hpp"
#include "generate.hpp"
#include "interpret.hpp"
#include "sabotage.hpp"
#include "support/sanitizers.hpp"

namespace weir::stress {
namespace {

/// What the checker says of a run; also what of the run differs, where `right`.
CheckReport checked(const Program& program, bool right) {
  Checker checker({.mode = CheckMode::collect});
  const Outcome outcome = execute(program);
  checker.finish();
  if (right) {
    const auto text = difference(program, interpret(program), outcome);
    EXPECT_FALSE(text.has_value()) << "with a checker: WEIR_SEED=" << program.seed << " " << *text;
  }
  return checker.report();
}

std::string why_not() {
  if (devices(tested_backend()).empty()) return "no device of backend '" + std::string(tested_backend()) + "'";
  return {};
}

void expect_silence(const Theme& theme, std::size_t count) {
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  for (const std::uint64_t seed : seeds_of(program_count(count))) {
    const Program program = generate(theme, seed);
    const CheckReport report = checked(program, true);
    ASSERT_EQ(report.errors, 0u) << "WEIR_SEED=" << seed << "\n" << to_text(report) << to_text(program);
  }
}

// 20,000 in all.
TEST(CheckedPrograms, of_one_host_thread_are_silent) { expect_silence({}, 12000); }
TEST(CheckedPrograms, of_three_host_threads_are_silent) { expect_silence({.threads = 3}, 3000); }
TEST(CheckedPrograms, that_fail_are_silent) { expect_silence({.failures = true, .defaults = false}, 2500); }
TEST(CheckedPrograms, with_graphs_are_silent) { expect_silence({.max_commands = 50, .graphs = true}, 2500); }
TEST(CheckedPrograms, are_silent_on_several_devices) {
  const int present = static_cast<int>(devices(tested_backend()).size());
  if (present < 2) GTEST_SKIP() << "fewer than two devices; WEIR_CPU_DEVICES=3 makes three of the CPU";
  expect_silence({.threads = 2, .devices = present}, 1000);
}

bool have_common(const Steps& a, const Steps& b) {
  for (std::size_t i = a.lo; i < a.hi; i += a.step) {
    if (i >= b.lo && i < b.hi && (i - b.lo) % b.step == 0) return true;
  }
  return false;
}

/// The oracle takes parts whose steps differ for overlapping, the checker knows better.
bool conflict(const Program& program, const Command& a, const Command& b) {
  bool found = false;
  for (const Access& x : accesses(program, a)) {
    for (const Access& y : accesses(program, b)) {
      if (x.operand.array != y.operand.array || (!x.write && !y.write)) continue;
      bool common = true;
      for (std::size_t d = 0; d < 4; ++d) common = common && have_common(x.operand.dims[d], y.operand.dims[d]);
      if (common && (x.at_call || y.at_call)) return false;  // the host takes part
      found = found || common;
    }
  }
  return found;
}

/// A yes orders what it was asked about, and nobody knows before whether it will be one.
bool asks(const Program& program) {
  return std::any_of(program.commands.begin(), program.commands.end(),
                     [](const Command& c) { return c.kind == Kind::query_stream || c.kind == Kind::query_event; });
}

/// Both run in streams, and touch memory there: what the host touches in between is not declared in these programs.
bool by_streams(const Program& program, const Sabotage& sabotage) {
  const Command& earlier = program.commands[sabotage.earlier];
  const Command& later = program.commands[sabotage.later];
  return runs_in_stream(earlier.kind) && runs_in_stream(later.kind) && earlier.stream != later.stream &&
         conflict(program, earlier, later) && earlier.kind != Kind::make_array && later.kind != Kind::free_array &&
         earlier.kind != Kind::free_array;
}

TEST(CheckedPrograms, without_a_wait_that_they_need_are_not_silent) {
  if (weir_test::under_thread_sanitizer) GTEST_SKIP() << "the race planted here is ThreadSanitizer's to see";
  if (const std::string reason = why_not(); !reason.empty()) GTEST_SKIP() << reason;
  const std::size_t wanted = program_count(20000);
  std::size_t tried = 0, found = 0;
  std::string missed;
  for (std::uint64_t seed = first_seed(); tried < wanted; ++seed) {
    const Program program = generate({.max_commands = 25, .defaults = false}, seed);
    if (asks(program)) continue;
    for (const Sabotage& sabotage : necessary_waits(program)) {
      if (!by_streams(program, sabotage)) continue;
      const CheckReport report = checked(sabotaged(program, sabotage.wait), false);
      // A region of too many rows: it says so.
      if (report.errors == 0 && !report.unchecked.empty()) break;
      ++tried;
      if (report.errors > 0) {
        ++found;
      } else {
        missed += "WEIR_SEED=" + std::to_string(seed) + " without command " + std::to_string(sabotage.wait) + ", " +
                  to_text(program, program.commands[sabotage.earlier]) + " before " +
                  to_text(program, program.commands[sabotage.later]) + "\n" + to_text(program);
      }
      break;
    }
  }
  EXPECT_EQ(found, tried) << missed;
  EXPECT_GT(tried, 0u);
}

}  // namespace
}  // namespace weir::stress
