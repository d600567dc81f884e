// What a finding of a running program says, and how it is read.
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/check.hpp>
#include <weir/collectives.hpp>
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
struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};

// That a side has read the bytes before it wrote them is one kind more, unless that read is ordered.
TEST(Findings, say_that_a_stream_has_read_what_it_then_wrote) {
  Pair streams;
  auto a = weir::zeros<float>(streams.own, 16), b = weir::zeros<float>(streams.own, 16);
  weir::synchronize();
  Checker checker({.mode = CheckMode::collect});
  weir::launch(streams.own, 16, Look{}, weir::in(a));
  weir::launch(streams.own, 16, Touch{}, weir::out(a));
  weir::launch(streams.compute, 16, Touch{}, weir::out(a));
  weir::launch(streams.own, 16, Touch{}, weir::inout(b));
  streams.compute.wait(streams.own);
  weir::launch(streams.own, 16, Touch{}, weir::out(b));
  weir::launch(streams.compute, 16, Touch{}, weir::out(b));
  const std::vector<weir::Finding> found = checker.findings();
  ASSERT_EQ(found.size(), 2u) << to_text(checker.report());
  EXPECT_EQ(found[0].kind, FindingKind::write_after_write);
  EXPECT_EQ(found[0].also, std::vector{FindingKind::write_after_read});
  EXPECT_EQ(found[1].kind, FindingKind::write_after_write);
  EXPECT_EQ(found[1].also, std::vector<FindingKind>());
}

std::string line(int number) { return "findings_test.cpp:" + std::to_string(number); }

TEST(Findings, name_the_line_that_made_a_stream_that_does_not_block) {
  const weir::Device device = weir::device("cpu");
  const weir::Stream apart(device, {.blocking = false, .name = "apart"});
  const int made = __LINE__ - 1;
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(weir::legacy_stream(device), 16);
  weir::launch(apart, 16, Touch{}, weir::inout(a));
  const std::string why = checker.findings().at(0).why;
  EXPECT_NE(why.find("\"apart\", made at "), std::string::npos) << why;
  EXPECT_NE(why.find(line(made) + ", is not a blocking stream"), std::string::npos) << why;
}

TEST(Findings, name_what_the_host_waited_for_instead) {
  Pair streams;
  auto p = weir::zeros<float>(weir::pinned, 16), q = weir::zeros<float>(weir::pinned, 16);
  Checker checker({.mode = CheckMode::collect});
  weir::launch(streams.own, 16, Touch{}, weir::inout(p));
  streams.compute.synchronize();
  const int waited = __LINE__ - 1;
  static_cast<void>(weir::host_read(p));
  const std::string other = checker.findings().at(0).why;
  EXPECT_NE(other.find(line(waited) + " for \"compute\", and not for \"own\""), std::string::npos) << other;
  streams.own.synchronize();
  const int before = __LINE__ - 1;
  weir::launch(streams.own, 16, Touch{}, weir::inout(q));
  static_cast<void>(weir::host_read(q));
  const std::string early = checker.findings().at(1).why;
  EXPECT_NE(early.find("last waited for \"own\" at "), std::string::npos) << early;
  EXPECT_NE(early.find(line(before) + ", before the launch was submitted"), std::string::npos) << early;
}

TEST(Findings, name_both_lines_of_an_event_that_was_recorded_again) {
  Pair streams;
  const weir::Stream third(streams.device, {.blocking = false, .name = "third"});
  auto a = weir::zeros<float>(streams.own, 16);
  weir::synchronize();
  Checker checker({.mode = CheckMode::collect});
  weir::Event event(streams.device);
  weir::launch(streams.own, 16, Touch{}, weir::inout(a));
  streams.own.record(event);
  const int first = __LINE__ - 1;
  third.record(event);
  const int again = __LINE__ - 1;
  streams.compute.wait(event);
  weir::launch(streams.compute, 16, Touch{}, weir::inout(a));
  const std::string why = checker.findings().at(0).why;
  EXPECT_NE(why.find("recorded on \"own\" at "), std::string::npos) << why;
  EXPECT_NE(why.find(line(first) + ", was recorded again on \"third\" at "), std::string::npos) << why;
  EXPECT_NE(why.find(line(again)), std::string::npos) << why;
}

// "4.wait(legacy);" would compile nowhere.
TEST(Findings, have_mends_that_tell_streams_without_a_name_by_their_numbers) {
  const weir::Device device = weir::device("cpu");
  const weir::Stream apart(device, {.blocking = false, .name = "lanes[0]"}), nameless(device, {.blocking = false});
  const weir::StreamRef legacy = weir::legacy_stream(device);
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(nameless, 16);
  weir::launch(apart, 16, Touch{}, weir::inout(a));
  auto b = weir::zeros<float>(legacy, 16);
  weir::launch(nameless, 16, Touch{}, weir::inout(b));
  const std::vector<weir::Finding> found = checker.findings();
  ASSERT_EQ(found.size(), 2u) << to_text(checker.report());
  const std::string number = "<stream \"" + nameless.name() + "\">";
  EXPECT_EQ(found[0].mend.code.at(0).text, "lanes[0].wait(" + number + ");");
  EXPECT_EQ(found[1].mend.code.at(0).text, number + ".wait(<stream \"legacy\">);");
}

// There is no builder: what was captured is mended by waits of the streams that were captured.
TEST(Findings, of_what_was_captured_have_mends_between_its_streams) {
  for (const bool goes_on : {false, true}) {
    Pair streams;
    auto a = weir::zeros<float>(streams.own, 16), b = weir::zeros<float>(streams.own, 16);
    weir::synchronize();
    Checker checker({.mode = CheckMode::collect});
    weir::Graph graph = weir::capture(streams.own, [&] {
      streams.compute.wait(streams.own);
      weir::launch(streams.compute, 16, Touch{}, weir::out(a));
      if (goes_on) weir::launch(streams.compute, 16, Touch{}, weir::out(b));
      weir::launch(streams.own, 16, Look{}, weir::in(a));
      streams.own.wait(streams.compute);
    });
    graph.launch(streams.own);
    const std::vector<weir::Finding> found = checker.findings();
    ASSERT_EQ(found.size(), 1u) << to_text(checker.report());
    ASSERT_EQ(found[0].mend.code.size(), goes_on ? 2u : 1u) << to_text(found[0]);
    EXPECT_EQ(found[0].mend.code.front().text, goes_on ? "auto mend1 = compute.record();" : "own.wait(compute);");
    EXPECT_EQ(found[0].mend.code.back().text, goes_on ? "own.wait(mend1);" : "own.wait(compute);");
    weir::synchronize();
  }
}

TEST(Findings, name_the_collective_that_takes_part) {
  Pair streams;
  const auto ranks = weir::communicators({streams.device});
  auto x = weir::zeros<float>(streams.own, 16), y = weir::zeros<float>(streams.own, 16);
  weir::synchronize();
  Checker checker({.mode = CheckMode::collect});
  weir::all_reduce(streams.own, ranks[0], weir::in(x), weir::out(y));
  weir::launch(streams.compute, 16, Look{}, weir::in(y));
  ASSERT_EQ(checker.errors(), 1u) << to_text(checker.report());
  const weir::Finding found = checker.findings().at(0);
  EXPECT_EQ(found.first.op, "external");
  EXPECT_EQ(found.first.name, "all_reduce");
  EXPECT_NE(to_text(found).find("external all_reduce (use 1, out)"), std::string::npos) << to_text(found);
  weir::synchronize();
}

TEST(Findings, of_names_that_a_terminal_would_obey_are_told_in_plain_lines) {
  const weir::Device device = weir::device("cpu");
  const weir::Stream one(device, {.blocking = false, .name = "\x1b[2Jone\nhazard: none"});
  const weir::Stream other(device, {.blocking = false, .name = "other\r"});
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(one, 16);
  weir::launch(other, 16, Touch{}, weir::inout(a));
  const std::string text = to_text(checker.findings().at(0));
  EXPECT_NE(text.find(R"("\x1b[2Jone\nhazard: none")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("other\x0d")"), std::string::npos) << text;
  EXPECT_EQ(text.find("\nhazard: none"), std::string::npos) << text;
  EXPECT_EQ(text.find_first_of("\x1b\r"), std::string::npos) << text;
  weir::synchronize();
}

TEST(Findings, are_suppressed_where_their_memory_has_a_name_with_blanks) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect,
                   .suppressions = "use_before_alloc memory?made?at?findings_test.cpp:* * *  # on purpose\n"
                                   "* other?name * *  # nothing\n"});
  auto a = weir::zeros<float>(streams.own, 16);
  weir::launch(streams.compute, 16, Touch{}, weir::out(a));
  EXPECT_EQ(checker.errors(), 0u);
  EXPECT_EQ(checker.report().suppressed, 1u);
  EXPECT_EQ(checker.report().unmatched_suppressions, std::vector<std::string>{"* other?name * *  # nothing"});
}

// Whatever path the compiler was given: a key has the file's name alone.
TEST(Findings, are_suppressed_by_the_lines_of_their_keys) {
  Pair streams;
  std::string known;
  for (const bool again : {false, true}) {
    Checker checker({.mode = CheckMode::collect, .suppressions = known});
    auto a = weir::zeros<float>(streams.own, 16);
    weir::launch(streams.compute, 16, Touch{}, weir::out(a));
    weir::synchronize();
    EXPECT_EQ(checker.report().suppressed, again ? 1u : 0u);
    EXPECT_EQ(checker.errors(), again ? 0u : 1u);
    if (again) break;
    const auto in_key = [](const weir::Side& side) {
      return side.file.substr(side.file.rfind('/') + 1) + ":" + std::to_string(side.line);
    };
    const weir::Finding found = checker.findings().at(0);
    ASSERT_NE(found.key.find(in_key(found.second) + ":" + in_key(found.first)), std::string::npos) << found.key;
    known = "use_before_alloc * " + in_key(found.second) + " " + in_key(found.first) + "  # on purpose\n";
  }
}

// A part of a finding is there as what it is, and as what it may be.
TEST(Findings, have_parts_that_are_read_both_ways) {
  Pair streams;
  Checker checker({.mode = CheckMode::collect});
  auto a = weir::zeros<float>(streams.own, 16);
  weir::launch(streams.compute, 16, Touch{}, weir::out(a));
  const weir::Finding found = checker.findings().at(0);
  const weir::Side& first = found.first;
  EXPECT_EQ(first.stream, "own");
  EXPECT_EQ(found.second.stream, "compute");
  EXPECT_EQ(found.second->line, found.second.line);
  EXPECT_EQ(found.buffer.bytes, 64u);
  EXPECT_TRUE(found.mend && found.mend.verified);
  const weir::Finding none;
  EXPECT_FALSE(none.first || none.mend.has_value());
  EXPECT_EQ(none.first.line, 0u);
}

}  // namespace
