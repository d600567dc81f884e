// Tests of the random programs' own checks: each difference is one, each campaign that sees one fails, and programs contain
// what they are there for.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <map>
#include <set>
#include <vector>

#include "campaign.hpp"
#include "execute.hpp"
#include "generate.hpp"
#include "interpret.hpp"
#include "mock.hpp"
#include "order.hpp"
#include "sabotage.hpp"
#include "valid.hpp"

namespace weir::stress {
namespace {

/// Two streams of one device, one non-blocking; an array in each memory; as many events as asked for.
Program plain_program(int events = 1) {
  Program program;
  program.streams = {{StreamKind::legacy, 0, 0, 0}, {StreamKind::own, 0, 0, 0}, {StreamKind::per_thread, 0, 0, 0}};
  program.streams.push_back({StreamKind::non_blocking, 0, 0, 0});
  for (const Memory memory : {Memory::device, Memory::pinned, Memory::pageable}) {
    program.arrays.push_back({memory, 0, 1, {300, 1, 1, 1}});
  }
  for (int e = 0; e < events; ++e) program.events.push_back({0, false, 0});
  return program;
}
constexpr int on_device = 0, in_pinned = 1, in_pageable = 2, free_stream = 3;

Command of(Kind kind, int stream = free_stream) {
  Command c;
  c.kind = kind;
  c.stream = stream;
  return c;
}
Command writing(const Program& program, Kind kind, int array, int stream = free_stream) {
  Command c = of(kind, stream);
  c.out = whole(program, array);
  c.salt = 7;
  return c;
}
/// Streams and arrays that the programs use.
void make_objects(Program& program) {
  program.commands.push_back(of(Kind::make_stream));
  for (int array = on_device; array <= in_pageable; ++array) {
    Command make = writing(program, array == on_device ? Kind::make_array : Kind::make_host, array);
    make.how = How::full;
    program.commands.push_back(make);
  }
}

TEST(Difference, is_each_thing_that_was_not_as_expected) {
  Program program = plain_program();
  make_objects(program);
  Outcome right;
  right.arrays = {{1, 2}, {3}, {}};
  right.read[1] = {4, 5};
  right.answers[2] = true;
  right.thrown[3] = 6;
  right.left = {7};
  EXPECT_FALSE(difference(program, right, right).has_value());
  const auto wrong = [&](auto&& change) {
    Outcome actual = right;
    change(actual);
    return difference(program, right, actual).has_value();
  };
  EXPECT_TRUE(wrong([](Outcome& o) { o.complaints = {"something was never destroyed"}; }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.thrown.clear(); })) << "a failure that nobody threw";
  EXPECT_TRUE(wrong([](Outcome& o) { o.thrown[3] = 8; }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.thrown[2] = 6; }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.left.clear(); }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.left.push_back(9); }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.answers[2] = false; })) << "not done, though it was waited for";
  EXPECT_TRUE(wrong([](Outcome& o) { o.read.clear(); }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.read[1].pop_back(); }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.read[1][1] = 0; }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.arrays[0][1] = 0; }));
  EXPECT_TRUE(wrong([](Outcome& o) { o.arrays[1].clear(); }));
}

TEST(Campaign, of_a_right_machine_finds_nothing) {
  EXPECT_EQ(run_campaign({}, 40, [](const Program& p) { return mock_run(p, p.seed); }).value_or(""), "");
}

TEST(Campaign, of_a_wrong_machine_fails_and_names_the_seed_and_the_difference) {
  const auto complains = [](const Program& p) {
    Outcome outcome = mock_run(p, p.seed);
    outcome.complaints.push_back("the machine is wrong on purpose");
    return outcome;
  };
  const auto text = run_campaign({}, 1, complains);
  ASSERT_TRUE(text.has_value());
  EXPECT_NE(text->find("WEIR_SEED=" + std::to_string(seeds_of(1)[0])), std::string::npos) << *text;
  EXPECT_NE(text->find("wrong on purpose"), std::string::npos) << *text;
}

TEST(Campaign, of_a_machine_that_is_wrong_in_one_element_fails) {
  const auto loses = [](const Program& p) {
    Outcome outcome = mock_run(p, p.seed);
    for (auto& array : outcome.arrays) {
      for (Element& element : array) element += 1;
    }
    return outcome;
  };
  EXPECT_TRUE(run_campaign({}, 4, loses).has_value());
}

TEST(Seeds, are_the_same_each_time_but_for_a_quarter_that_is_new) {
  if (std::getenv("WEIR_SEED") != nullptr) GTEST_SKIP() << "WEIR_SEED says which ones";
  const std::vector<std::uint64_t> seeds = seeds_of(400);
  ASSERT_EQ(seeds.size(), 400u);
  EXPECT_EQ(std::set<std::uint64_t>(seeds.begin(), seeds.end()).size(), 400u);
  for (std::size_t i = 0; i < 300; ++i) EXPECT_EQ(seeds[i], first_seed() + i);
  EXPECT_EQ(seeds[300], fresh_seed());
  EXPECT_NE(new_seed(), new_seed());
}

//  download      returns when the copy is done: the host may then write what it read from
//  copy          of pinned memory does not
TEST(Oracle, knows_which_copies_block_the_host) {
  Program program = plain_program();
  make_objects(program);
  Command download = of(Kind::download);
  download.in.push_back(whole(program, in_pinned));
  Command copy = writing(program, Kind::copy, on_device);
  copy.in.push_back(whole(program, in_pinned));
  const Command host_work = writing(program, Kind::host_work, in_pinned);
  Program blocking = program, asynchronous = program;
  blocking.commands.insert(blocking.commands.end(), {download, host_work});
  asynchronous.commands.insert(asynchronous.commands.end(), {copy, host_work});
  EXPECT_EQ(problem(blocking).value_or(""), "");
  EXPECT_TRUE(problem(asynchronous).has_value());

  const auto after = [&](Command command, int array) {
    Program one = program;
    one.commands.push_back(std::move(command));
    one.commands.push_back(writing(one, Kind::host_work, array));
    return problem(one);
  };
  Command to_pageable = writing(program, Kind::copy, in_pageable);
  to_pageable.in.push_back(whole(program, in_pinned));
  EXPECT_EQ(after(to_pageable, in_pinned).value_or(""), "");
  EXPECT_EQ(after(writing(program, Kind::fill, in_pageable), in_pageable).value_or(""), "");
  EXPECT_TRUE(after(writing(program, Kind::fill, in_pinned), in_pinned).has_value());
}

TEST(Oracle, knows_which_questions_have_a_certain_answer) {
  Program program = plain_program();
  make_objects(program);
  const auto answers = [&](std::vector<Command> commands) {
    Program asked = program;
    for (Command& c : commands) asked.commands.push_back(std::move(c));
    return interpret(asked).answers;
  };
  const std::size_t first = program.commands.size();
  const Command work = writing(program, Kind::fill, on_device);
  Command make_event = of(Kind::make_event, -1), record = of(Kind::record), query_event = of(Kind::query_event, -1);
  Command sync_event = of(Kind::sync_event, -1);
  for (Command* c : {&make_event, &record, &query_event, &sync_event}) c->event = 0;
  EXPECT_TRUE(answers({work, of(Kind::query_stream)}).empty());
  EXPECT_EQ(answers({work, of(Kind::sync_stream), of(Kind::query_stream)}),
            (std::map<std::size_t, bool>{{first + 2, true}}));
  EXPECT_TRUE(answers({work, of(Kind::sync_stream), work, of(Kind::query_stream)}).empty());
  EXPECT_EQ(answers({make_event, query_event}), (std::map<std::size_t, bool>{{first + 1, true}}));
  EXPECT_TRUE(answers({make_event, work, record, query_event}).empty());
  EXPECT_EQ(answers({make_event, work, record, sync_event, query_event}),
            (std::map<std::size_t, bool>{{first + 4, true}}));
}

TEST(Probe, notices_a_stream_that_says_yes_too_early) {
  std::function<void()> command;
  const auto put = [&](auto note) { command = note; };
  EXPECT_TRUE(false_yes(put, [] { return true; }));
  EXPECT_FALSE(false_yes(put, [] { return false; })) << "no is never wrong";
  EXPECT_FALSE(false_yes(put, [&] { return command(), true; })) << "it has run";
}

/// Updates that a machine forgets must show.
TEST(Comparison, sees_updates_that_are_forgotten) {
  std::size_t tried = 0, seen = 0;
  for (std::uint64_t seed = 1; tried < 200; ++seed) {
    const Program program = generate({.graphs = true}, seed);
    const auto last = std::find_if(program.commands.rbegin(), program.commands.rend(),
                                   [](const Command& c) { return c.kind == Kind::update_graph; });
    if (last == program.commands.rend()) continue;
    ++tried;
    const auto number = static_cast<std::size_t>(program.commands.rend() - last) - 1;
    if (difference(program, interpret(program), mock_run(sabotaged(program, number), seed))) ++seen;
  }
  EXPECT_GE(seen * 100, tried * 30) << seen << " of " << tried;
}

/// How many of 300 programs have what `has` looks for.
template <class Has>
std::size_t programs_with(const Theme& theme, Has&& has) {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    if (has(generate(theme, seed))) ++found;
  }
  return found;
}

TEST(Generator, puts_work_on_the_default_streams) {
  for (const StreamKind kind :
       {StreamKind::legacy, StreamKind::per_thread, StreamKind::own, StreamKind::non_blocking}) {
    const std::size_t found = programs_with({}, [&](const Program& program) {
      return std::any_of(program.commands.begin(), program.commands.end(), [&](const Command& c) {
        return c.stream >= 0 && runs_in_stream(c.kind) && is_barrier(c) && c.kind != Kind::to_host &&
               program.streams[static_cast<std::size_t>(c.stream)].kind == kind;
      });
    });
    EXPECT_GE(found, 60u) << "of kind " << static_cast<int>(kind);
  }
}

bool only_orders(Kind kind) {
  switch (kind) {
    case Kind::record:
    case Kind::wait_event:
    case Kind::wait_stream:
    case Kind::sync_stream:
    case Kind::sync_event:
    case Kind::sync_device:
    case Kind::sync_all:
    case Kind::signal:
    case Kind::await:
    case Kind::make_event: return true;
    default: return false;
  }
}

/// A wait that a command needs stands right before it, on its stream.
TEST(Generator, puts_waits_where_nothing_needs_them) {
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const std::vector<Command> commands = generate({}, seed).commands;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      if (commands[i].kind != Kind::wait_event && commands[i].kind != Kind::wait_stream) continue;
      std::size_t next = i + 1;
      while (next < commands.size() && only_orders(commands[next].kind)) ++next;
      if (next == commands.size() || commands[next].stream != commands[i].stream) ++found;
    }
  }
  EXPECT_GE(found, 50u);
}

TEST(Generator, asks_questions_of_both_kinds_of_answer) {
  std::size_t certain = 0, open = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Program program = generate({}, seed);
    const Outcome expected = interpret(program);
    for (std::size_t i = 0; i < program.commands.size(); ++i) {
      const Kind kind = program.commands[i].kind;
      if (kind != Kind::query_stream && kind != Kind::query_event) continue;
      expected.answers.contains(i) ? ++certain : ++open;
    }
  }
  EXPECT_GE(certain, 30u);
  EXPECT_GE(open, 30u);
}

TEST(Generator, asks_questions_that_are_probed) {
  EXPECT_GE(programs_with({}, [](const Program& p) { return question_to_probe(p) < p.commands.size(); }), 60u);
  EXPECT_EQ(programs_with({.failures = true, .defaults = false},
                          [](const Program& p) {
                            const bool fails = std::any_of(p.commands.begin(), p.commands.end(), [](const Command& c) {
                              return c.kind == Kind::fail_kernel || c.kind == Kind::fail_host;
                            });
                            return fails && question_to_probe(p) < p.commands.size();
                          }),
            0u);
}

TEST(Oracle, knows_that_copies_that_block_the_host_throw_what_their_stream_has_failed_with) {
  Program program = plain_program();
  make_objects(program);
  Command fail = of(Kind::fail_host), download = of(Kind::download);
  fail.salt = 5;
  download.in.push_back(whole(program, on_device));
  const auto first = program.commands.size();
  for (const Command& c : {fail, download, of(Kind::sync_stream)}) program.commands.push_back(c);
  EXPECT_EQ(interpret(program).thrown, (std::map<std::size_t, Element>{{first + 1, 5}}));
}

/// Most of what comes behind a failure by the rules of the legacy stream is certain to be told.
TEST(Oracle, knows_who_inherits_by_the_default_streams) {
  Program program = plain_program();
  program.streams.push_back({StreamKind::blocking, 0, 0, 0});
  constexpr int legacy = 0, own = 1, per_thread = 2, blocking = 4;
  Command fail = of(Kind::fail_kernel, per_thread);
  fail.salt = 7;
  Command make = of(Kind::make_stream, blocking);
  const auto outcome = [&](std::vector<Command> commands) {
    Program one = program;
    one.commands = {make};
    for (Command& c : commands) one.commands.push_back(std::move(c));
    return interpret(one);
  };
  const Command by_legacy = of(Kind::sync_stream, legacy), by_blocking = of(Kind::sync_stream, blocking);
  Command work = of(Kind::fail_host, blocking);  // skipped: its stream has failed by then
  work.salt = 9;
  EXPECT_EQ(outcome({fail, by_legacy}).thrown, (std::map<std::size_t, Element>{{2, 7}}));
  EXPECT_TRUE(outcome({fail, by_blocking}).thrown.empty()) << "it has waited for nothing";
  Command record = of(Kind::fail_host, legacy);
  record.salt = 9;
  EXPECT_EQ(outcome({fail, record, work, by_blocking}).thrown, (std::map<std::size_t, Element>{{4, 7}}));
  EXPECT_EQ(outcome({fail, by_legacy, by_legacy}).thrown, (std::map<std::size_t, Element>{{2, 7}}));
  fail.stream = own;
  const Outcome unsaid = outcome({fail, by_legacy});
  EXPECT_TRUE(unsaid.thrown.empty());
  EXPECT_EQ(unsaid.may_throw, (std::map<std::size_t, Element>{{2, 7}}));

  std::size_t certain = 0, open = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Outcome expected = interpret(generate({.failures = true}, seed));
    certain += expected.thrown.size() + expected.left.size();
    open += expected.may_throw.size();
  }
  EXPECT_GE(certain, 300u);
  EXPECT_LE(open, certain / 2);
}

TEST(Generator, updates_graphs_in_each_way) {
  for (const Change change : {Change::kernel, Change::disable, Change::enable}) {
    EXPECT_GE(programs_with({.graphs = true},
                            [&](const Program& program) {
                              return std::any_of(
                                  program.commands.begin(), program.commands.end(),
                                  [&](const Command& c) { return c.kind == Kind::update_graph && c.change == change; });
                            }),
              30u);
  }
}

/// Who meets a failure is certain: calls about one stream by two threads are ordered on the host.
TEST(Generator, orders_calls_about_a_stream_where_threads_fail) {
  std::size_t failing = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    const Program program = generate({.threads = 3, .failures = true, .defaults = false}, seed);
    Program grown = program;
    grown.commands.clear();
    Order order(grown);
    for (const Command& c : program.commands) {
      if (c.kind == Kind::fail_kernel || c.kind == Kind::fail_host) ++failing;
      for (std::size_t i = 0; i < grown.commands.size(); ++i) {
        const bool same = c.stream >= 0 && grown.commands[i].stream == c.stream;
        EXPECT_TRUE(!same || order.called_before(i, c.thread)) << "seed " << seed << " " << to_text(program, c);
      }
      grown.commands.push_back(c);
      order.append();
    }
  }
  EXPECT_GE(failing, 100u);
}

TEST(Generator, makes_commands_of_every_kind) {
  std::set<Kind> seen;
  for (const Theme& theme : {Theme{.threads = 2}, Theme{.failures = true, .defaults = false}, Theme{.graphs = true},
                             Theme{.allocations = 40}}) {
    for (std::uint64_t seed = 1; seed <= 150; ++seed) {
      const Program program = generate(theme, seed);
      for (const Command& c : program.commands) seen.insert(c.kind);
    }
  }
  for (int kind = 0; kind <= static_cast<int>(Kind::await); ++kind) {
    EXPECT_TRUE(seen.contains(static_cast<Kind>(kind))) << "kind " << kind;
  }
}

}  // namespace
}  // namespace weir::stress
