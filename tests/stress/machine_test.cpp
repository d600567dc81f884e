// The machine that runs random programs on a device tells all that it saw: what it keeps to itself nobody compares.
#include <gtest/gtest.h>

#include <atomic>
#include <variant>

#include <weir/observer.hpp>

#include "execute.hpp"
#include "interpret.hpp"

namespace weir::stress {
namespace {

/// A stream of the device's own, and as many events as asked for.
Program program_of(std::vector<Command> commands, std::vector<EventDecl> events = {}) {
  Program program;
  program.streams = {{StreamKind::legacy, 0, 0, 0}, {StreamKind::own, 0, 0, 0}, {StreamKind::per_thread, 0, 0, 0}};
  program.events = std::move(events);
  program.commands = std::move(commands);
  return program;
}
constexpr int own = 1;

Command of(Kind kind, int stream, int event = -1) {
  Command c;
  c.kind = kind;
  c.stream = stream;
  c.event = c.event2 = event;
  return c;
}

TEST(Machine, tells_what_streams_and_events_answered) {
  const Program program = program_of({of(Kind::make_event, -1, 0), of(Kind::record, own, 0), of(Kind::sync_stream, own),
                                      of(Kind::query_stream, own), of(Kind::query_event, -1, 0)},
                                     {{0, false, 0}});
  EXPECT_EQ(execute(program).answers, (std::map<std::size_t, bool>{{3, true}, {4, true}}));
}

TEST(Machine, tells_which_call_threw_a_planned_failure) {
  Command failure = of(Kind::fail_host, own);
  failure.salt = 5;
  const Program program = program_of({failure, of(Kind::sync_stream, own)});
  EXPECT_EQ(execute(program).thrown, (std::map<std::size_t, Element>{{1, 5}}));
}

TEST(Machine, complains_of_calls_that_throw_though_nothing_was_planned) {
  const Program program =
      program_of({of(Kind::make_event, -1, 0), of(Kind::elapsed, -1, 0)}, {{0, true, 0}});  // it was never recorded
  const Outcome seen = execute(program);
  ASSERT_EQ(seen.complaints.size(), 1u);
  EXPECT_NE(seen.complaints[0].find("elapsed"), std::string::npos) << seen.complaints[0];
}

TEST(Machine, puts_a_command_behind_the_last_question_to_see_whether_a_yes_is_true) {
  class HostCalls final : public Observer {
   public:
    void submitted(const weir::Command& command) override {
      calls += std::holds_alternative<HostCall>(command.op) ? 1 : 0;
    }
    std::atomic<int> calls{0};
  } seen;
  attach(seen, Watch::commands);
  execute(program_of({of(Kind::query_stream, own), of(Kind::query_stream, own)}));
  detach(seen);
  EXPECT_EQ(seen.calls, 1);
}

}  // namespace
}  // namespace weir::stress
