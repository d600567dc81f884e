// What the checker says of ends: of its own memory, and of captures that never end; and sinks that fail.
#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/weir.hpp>

#include "pair.hpp"

namespace {

using checker_test::Pair;
using weir::Checker;
using weir::CheckMode;
using weir::FindingKind;

struct Touch {
  WEIR_KERNEL void operator()(std::size_t, weir::View<float>) const {}
};

TEST(CheckerLimits, tells_captures_that_never_ended) {
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  Checker checker({.mode = CheckMode::collect, .leaks = true});
  static_cast<void>(weir::capture(s, [] {}));
  weir::capture_begin(s);
  const int line = __LINE__ - 1;
  checker.finish();
  ASSERT_EQ(checker.findings().size(), 1u) << to_text(checker.report());
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.kind, FindingKind::leak);
  EXPECT_EQ(found.severity, weir::Severity::warning);
  EXPECT_EQ(found.second->line, static_cast<std::uint32_t>(line));
  EXPECT_FALSE(found.buffer);
  static_cast<void>(weir::capture_end(s));
}

TEST(CheckerLimits, forgets_uses_at_its_limit_of_memory_and_goes_on) {
  Pair streams;
  auto a = weir::zeros<std::byte>(weir::pinned, 1 << 20);
  auto b = weir::zeros<std::byte>(weir::pinned, 1 << 20);
  auto c = weir::zeros<float>(streams.own, 16);
  streams.own.synchronize();
  Checker checker({.mode = CheckMode::collect, .memory_limit = 256 << 10});
  // Ranges that are never one.
  for (std::size_t i = 0; i < 20000; ++i) {
    weir::copy(i % 2 == 0 ? streams.own : streams.compute, a.slice(8 * i, 8 * i + 8), b.slice(8 * i, 8 * i + 8));
  }
  const weir::CheckReport report = checker.report();
  EXPECT_LE(checker.statistics().bytes, std::size_t{1} << 20);
  ASSERT_EQ(report.unchecked.size(), 1u);
  EXPECT_EQ(report.unchecked[0].what, "earlier uses of memory");
  EXPECT_GT(report.unchecked[0].count, 1000u);
  EXPECT_EQ(checker.errors(), 0u) << to_text(report);
  weir::launch(streams.own, 16, Touch{}, weir::inout(c));
  weir::launch(streams.compute, 16, Touch{}, weir::inout(c));
  EXPECT_EQ(checker.errors(), 1u);
  weir::synchronize();
}

// Each launch of a graph is a place of its own, which goes when nothing that it touched is the last to be touched.
TEST(CheckerLimits, takes_no_more_memory_the_more_often_a_graph_is_launched) {
  Pair streams;
  auto a = weir::zeros<float>(streams.own, 16);
  const weir::Event ready(streams.device);
  weir::GraphBuilder builder(streams.device);
  const auto node = builder.launch(16, Touch{}, weir::inout(a));
  builder.depends(builder.record(ready), node);
  const weir::Graph graph = builder.build();
  streams.own.synchronize();
  const Checker checker({.mode = CheckMode::collect});
  std::size_t at_first = 0;
  for (int i = 0; i < 40000; ++i) {
    graph.launch(streams.own);
    if (i == 10000) at_first = checker.statistics().bytes;
    if (i % 64 == 0) streams.own.synchronize();
  }
  EXPECT_LE(checker.statistics().bytes, at_first + 1024);
  EXPECT_EQ(checker.errors(), 0u);
  // The last launch is known.
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  EXPECT_EQ(checker.errors(), 1u);
  weir::synchronize();
}

TEST(CheckerLimits, stops_at_its_limit_of_memory_and_says_so) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect, .memory_limit = 1});
  auto a = weir::zeros<float>(streams.own, 16);
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  const weir::CheckReport report = checker.report();
  EXPECT_TRUE(report.findings.empty());
  ASSERT_EQ(report.unchecked.size(), 1u);
  EXPECT_EQ(report.unchecked[0].what, "commands");
}

// What a call throws, and what is printed, is not the sink's.
TEST(CheckerSinks, that_throw_hide_no_finding) {
  for (const CheckMode mode : {CheckMode::print, CheckMode::throw_error}) {
    Pair streams;
    auto a = weir::zeros<float>(streams.own, 16);
    streams.own.synchronize();
    Checker checker({.mode = mode, .sink = [](const weir::Finding&) { throw 1; }});
    weir::launch(streams.own, 16, Touch{}, weir::inout(a));
    const auto use = [&] { weir::launch(streams.compute, 16, Touch{}, weir::inout(a)); };
    testing::internal::CaptureStderr();
    if (mode == CheckMode::print) {
      EXPECT_NO_THROW(use());
    } else {
      EXPECT_THROW(use(), weir::Error);
    }
    const std::string printed = testing::internal::GetCapturedStderr();
    EXPECT_EQ(printed.find("hazard: ") != std::string::npos, mode == CheckMode::print) << printed;
    EXPECT_EQ(checker.errors(), 1u);
    weir::synchronize();
  }
}

}  // namespace
