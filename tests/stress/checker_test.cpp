// Tests of the testers: the oracle, the comparison and the shrinker find defects that are planted on purpose.
#include <gtest/gtest.h>

#include <algorithm>

#include "campaign.hpp"
#include "captured.hpp"
#include "execute.hpp"
#include "generate.hpp"
#include "mock.hpp"
#include "sabotage.hpp"
#include "shrink.hpp"
#include "support/sanitizers.hpp"
#include "valid.hpp"

namespace weir::stress {
namespace {

const std::vector<Theme> themes = {{},
                                   {.allocations = 40},
                                   {.threads = 3},
                                   {.threads = 2, .devices = 3},
                                   {.graphs = true, .conditionals = true},
                                   {.threads = 2, .devices = 2, .defaults = false, .graphs = true}};

/// Whether some schedule of the serial machine shows a difference.
bool differs(const Program& program, std::size_t schedules, std::optional<std::size_t> last = std::nullopt) {
  const Outcome expected = interpret(program);
  for (std::size_t s = 0; s < schedules; ++s) {
    if (difference(program, expected, mock_run(program, s, last))) return true;
  }
  return false;
}

TEST(Generator, makes_the_same_program_from_the_same_seed) {
  for (const Theme& theme : themes) EXPECT_EQ(to_text(generate(theme, 7)), to_text(generate(theme, 7)));
  EXPECT_NE(to_text(generate({}, 7)), to_text(generate({}, 8)));
}

TEST(Generator, orders_enough_for_every_schedule) {
  for (std::size_t i = 0; i < program_count(600); ++i) {
    const Program program = generate(themes[i % themes.size()], first_seed() + i);
    ASSERT_EQ(problem(program).value_or(""), "") << "seed " << program.seed << "\n" << to_text(program);
    const Outcome expected = interpret(program);
    for (std::uint64_t schedule = 0; schedule < 3; ++schedule) {
      const auto text = difference(program, expected, mock_run(program, schedule));
      ASSERT_FALSE(text.has_value()) << *text << "\nseed " << program.seed << "\n" << to_text(program);
    }
  }
}

TEST(Generator, orders_enough_inside_graphs) {
  std::size_t graphs = 0, forks = 0;
  for (std::size_t i = 0; i < program_count(600); ++i) {
    const Program program = generate(themes[4 + i % 2], first_seed() + i);
    for (const GraphDecl& graph : program.graphs) {
      ++graphs;
      if (Captured(graph).streams.size() > 1) ++forks;
      const Program body = body_program(program, graph);
      const Outcome expected = interpret(body);
      for (std::uint64_t schedule = 0; schedule < 3; ++schedule) {
        const auto text = difference(body, expected, mock_run(body, schedule));
        ASSERT_FALSE(text.has_value()) << *text << "\nseed " << program.seed << "\n" << to_text(body);
      }
    }
  }
  EXPECT_GE(graphs, program_count(600));
  EXPECT_GE(forks, graphs / 3);
}

TEST(Oracle, knows_which_waits_inside_graphs_are_needed) {
  std::size_t needed = 0, refused = 0;
  for (std::uint64_t seed = 1; needed < 100; ++seed) {
    const Program program = generate({.graphs = true}, seed);
    for (std::size_t g = 0; g < program.graphs.size(); ++g) {
      const Program body = body_program(program, program.graphs[g]);
      for (const Sabotage& sabotage : necessary_waits(body)) {
        if (sabotage.wait < body_begin(body)) continue;
        ++needed;
        GraphDecl broken = program.graphs[g];
        const auto same = [&](const Command& c) {
          return to_text(program, c) == to_text(body, body.commands[sabotage.wait]);
        };
        std::erase_if(broken.body, same);
        if (capture_problem(program, broken)) ++refused;
      }
    }
  }
  EXPECT_EQ(refused, needed);
}

TEST(Oracle, knows_that_the_legacy_stream_is_not_captured) {
  Program program = generate({.graphs = true}, 1);
  while (program.graphs.empty()) program = generate({.graphs = true}, program.seed + 1);
  ASSERT_FALSE(problem(program).has_value());
  program.streams[static_cast<std::size_t>(program.graphs.front().origin)].kind = StreamKind::legacy;
  EXPECT_EQ(capture_problem(program, program.graphs.front()), "captures the legacy stream");
}

TEST(Oracle, knows_which_waits_are_needed) {
  std::size_t needed = 0, shown = 0;
  for (std::uint64_t seed = 1; needed < 200; ++seed) {
    const Program program = generate(themes[seed % themes.size()], seed);
    for (const Sabotage& sabotage : necessary_waits(program)) {
      ++needed;
      if (differs(sabotaged(program, sabotage.wait), 6, sabotage.earlier)) ++shown;
    }
    for (const std::size_t wait : redundant_waits(program)) {
      EXPECT_FALSE(differs(sabotaged(program, wait), 10))
          << "seed " << seed << ", " << to_text(program, program.commands[wait]);
    }
  }
  // Some orders matter for values that are overwritten before anyone looks.
  EXPECT_GE(shown * 100, needed * 65) << shown << " of " << needed;
}

TEST(Shrinker, leaves_what_a_planted_defect_needs) {
  std::size_t tried = 0;
  for (std::uint64_t seed = 1; tried < 12; ++seed) {
    const Program program = generate(themes[seed % themes.size()], seed);
    const std::vector<Sabotage> needed = necessary_waits(program);
    if (needed.empty()) continue;
    const Program failing = sabotaged(program, needed.back().wait);
    const auto fails = [](const Program& p) { return differs(p, 60); };
    if (!fails(failing)) continue;
    ++tried;
    const Program small = shrink(failing, fails, std::chrono::seconds(20));
    EXPECT_TRUE(fails(small));
    EXPECT_FALSE(problem(small).has_value());
    EXPECT_LE(small.commands.size(), 12u) << to_text(small);
    const auto planted = [](const Command& c) { return c.sabotaged; };
    EXPECT_EQ(std::count_if(small.commands.begin(), small.commands.end(), planted), 1) << to_text(small);
  }
}

/// A wait is missing, and a gate holds what it should have waited for: the comparison must see it.
TEST(Comparison, sees_a_missing_wait_when_a_gate_forces_the_order) {
  if (weir_test::under_thread_sanitizer) GTEST_SKIP() << "the race planted here is ThreadSanitizer's to see";
  if (tested_backend() == "cuda") GTEST_SKIP() << "its gates are kernels for CPUs";
  const Theme theme{.max_commands = 25, .defaults = false};
  std::size_t tried = 0, seen = 0;
  for (std::uint64_t seed = 1; tried < 60; ++seed) {
    const Program program = generate(theme, seed);
    for (const Sabotage& s : necessary_waits(program)) {
      const Program broken = sabotaged(program, s.wait);
      const Kind held = program.commands[s.earlier].kind;
      // The order after an allocation shows only where its memory is still in use.
      if (!runs_in_stream(held) || held == Kind::make_array || !differs(broken, 1, s.earlier)) continue;
      ++tried;
      const Hold hold{s.earlier, s.later, std::chrono::milliseconds(200)};
      if (difference(broken, interpret(broken), execute(broken, hold))) ++seen;
      break;
    }
  }
  EXPECT_GE(seen * 100, tried * 90) << seen << " of " << tried;
}

/// The same gates change nothing where the wait is there.
TEST(Comparison, sees_nothing_when_the_wait_is_there) {
  if (tested_backend() == "cuda") GTEST_SKIP() << "its gates are kernels for CPUs";
  const Theme theme{.max_commands = 25, .defaults = false};
  std::size_t tried = 0;
  for (std::uint64_t seed = 1; tried < 20; ++seed) {
    const Program program = generate(theme, seed);
    for (const Sabotage& s : necessary_waits(program)) {
      if (!runs_in_stream(program.commands[s.earlier].kind)) continue;
      ++tried;
      const Hold hold{s.earlier, s.later, std::chrono::milliseconds(20)};
      const auto text = difference(program, interpret(program), execute(program, hold));
      EXPECT_FALSE(text.has_value()) << *text << "\nseed " << seed << "\n" << to_text(program);
      break;
    }
  }
}

/// A conditional node runs its body once less, or once instead of never: the comparison must see it where it shows at all.
TEST(Comparison, sees_a_body_that_runs_too_seldom_or_too_often) {
  const Theme theme{.max_commands = 30, .defaults = false, .graphs = true, .conditionals = true};
  std::size_t tried = 0;
  for (std::uint64_t seed = 1; tried < 40; ++seed) {
    const Program program = generate(theme, seed);
    const Outcome expected = interpret(program);
    for (std::size_t g = 0; g < program.graphs.size(); ++g) {
      for (std::size_t i = 0; i < program.graphs[g].body.size(); ++i) {
        if (program.graphs[g].body[i].control == Control::none) continue;
        Program broken = program;
        Command& inner = broken.graphs[g].body[i];
        inner.turns = inner.turns == 0 ? 1 : inner.turns - 1;
        if (!difference(program, expected, interpret(broken))) continue;
        ++tried;
        EXPECT_TRUE(difference(program, expected, execute(broken)).has_value()) << "seed " << seed;
      }
    }
  }
}

TEST(Text, has_one_line_for_each_command) {
  Program program;
  program.streams = {{StreamKind::legacy, 0, 0, 0}, {StreamKind::own, 0, 0, 0}, {StreamKind::non_blocking, 0, 0, -2}};
  program.arrays = {{Memory::device, 0, 1, {300, 1, 1, 1}}, {Memory::pinned, 0, 2, {4, 6, 1, 1}}};
  Command make;
  make.kind = Kind::make_stream;
  make.stream = 2;
  Command mix;
  mix.kind = Kind::mix;
  mix.stream = 2;
  mix.in = {whole(program, 1)};
  mix.in[0].dims[1] = {1, 6, 2};
  mix.in[0].transposed = true;
  mix.out = whole(program, 0);
  mix.delay = 12;
  program.commands = {make, mix};
  EXPECT_EQ(to_text(program),
            "s2: stream non_blocking device 0 priority -2\n"
            "s2: launch mix [300] in a1[0:4, 1:6:2].T inout a0 delay 12\n");
}

}  // namespace
}  // namespace weir::stress
