// What the checker keeps of streams that are gone: nothing, once all is behind them, and what may still race until then.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>

#include "check/engine.hpp"

namespace {

using weir::check::Call;
using weir::check::Engine;
using weir::recorded::Access;
using weir::recorded::Op;
using weir::recorded::StreamKind;
using weir::recorded::Use;

/// A program that makes streams one after the other, which use the same memory.
struct ShortStreams {
  explicit ShortStreams(weir::HostOrder order = weir::HostOrder::observed) : engine(options(order)) {}

  std::vector<weir::Finding> found;
  Engine engine;
  std::uint32_t memory = engine.add_buffer(memory_fact());
  Call call{0, 0, "a.cpp", 1};

  weir::check::EngineOptions options(weir::HostOrder order) {
    weir::check::EngineOptions made;
    made.host_order = order;
    made.found = [this](weir::Finding finding) { found.push_back(std::move(finding)); };
    return made;
  }
  static weir::check::BufferFact memory_fact() {
    weir::check::BufferFact fact;
    fact.name = "a";
    fact.bytes = 64;
    return fact;
  }
  std::uint32_t stream() {
    weir::check::StreamFact fact;
    fact.name = "s";
    fact.kind = StreamKind::non_blocking;
    const std::uint32_t made = engine.add_stream(fact);
    engine.made_stream(call, made);
    return made;
  }
  void use(std::uint32_t stream, Access access, std::uint64_t offset = 0, std::uint64_t bytes = 64) {
    const Use use{memory, access, false, 0, offset, bytes, {}};
    engine.work(call, stream, Op::launch, "Work", {&use, 1});
    ++call.command;
  }
  void write(std::uint32_t stream) { use(stream, Access::out); }
};

TEST(Timelines, of_synchronized_streams_that_are_gone_are_used_again) {
  ShortStreams program;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t s = program.stream();
    program.write(s);
    program.engine.synchronize_stream(program.call, s);
    program.engine.drop_stream(program.call, s);
  }
  EXPECT_EQ(program.found.size(), 0u);
  EXPECT_LT(program.engine.timelines(), 4u);
}

TEST(Timelines, of_streams_that_are_gone_are_used_again_when_all_was_synchronized) {
  ShortStreams program;
  for (int round = 0; round < 100; ++round) {
    const std::uint32_t s = program.stream();
    program.write(s);
    program.engine.drop_stream(program.call, s);
    program.engine.synchronize_all(program.call);
  }
  EXPECT_EQ(program.found.size(), 0u);
  EXPECT_LT(program.engine.timelines(), 4u);
}

TEST(Timelines, of_streams_that_are_gone_and_may_still_work_stay_apart) {
  ShortStreams program;
  for (int i = 0; i < 3; ++i) {
    const std::uint32_t s = program.stream();
    program.write(s);
    program.engine.drop_stream(program.call, s);
  }
  ASSERT_EQ(program.found.size(), 2u);
  EXPECT_EQ(program.found[0].kind, weir::FindingKind::write_after_write);
}

// A side of a finding is a stream, and not what two streams share.
TEST(Timelines, that_two_streams_had_are_two_sides) {
  ShortStreams program(weir::HostOrder::declared);
  const std::uint32_t other = program.stream();
  program.call.thread = 1;
  for (const std::uint64_t offset : {0, 32}) {
    const std::uint32_t s = program.stream();
    program.use(s, Access::in, offset, 32);
    program.engine.synchronize_stream(program.call, s);
    program.engine.drop_stream(program.call, s);
  }
  program.call.thread = 0;
  program.use(other, Access::out);
  EXPECT_EQ(program.found.size(), 2u);
}

}  // namespace
