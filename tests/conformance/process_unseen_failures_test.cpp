// Failures that the program never asked about are printed when the process ends.
#include <stdexcept>
#include <string>

#include "support/between_looks.hpp"
#include "support/child.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

struct Burst {
  void operator()(std::size_t) const { throw std::runtime_error("the pipe burst"); }
};

void fail(weir::StreamRef s, const char* name) { weir::launch(s, weir::Extent{.size = 1, .name = name}, Burst{}); }

void poll(weir::StreamRef s) {
  for (int looks = 0; !s.done(); ++looks) weir_test::between_looks(looks);
}

std::size_t count_in(const std::string& text, std::string_view word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

WEIR_SCENE(polls_and_ends) {
  const weir::Stream s(weir::device("cpu"));
  fail(s, "the culprit");
  const weir::Event e = s.record();
  for (int looks = 0; !e.done(); ++looks) weir_test::between_looks(looks);
}

WEIR_SCENE(fails_in_a_stream_that_goes) {
  weir::Event e(weir::device("cpu"));
  {
    const weir::Stream s(weir::device("cpu"));
    fail(s, "the culprit");
    s.record(e);
  }
  for (int looks = 0; !e.done(); ++looks) weir_test::between_looks(looks);
}

WEIR_SCENE(fails_in_a_graph) {
  const weir::Stream s(weir::device("cpu"));
  const weir::Graph graph = weir::capture(s, [&] { fail(s, "the culprit"); });
  graph.launch(s);
  poll(s);
}

WEIR_SCENE(two_streams_inherit_and_one_of_them_asks) {
  const weir::Stream a(weir::device("cpu")), b(weir::device("cpu")), c(weir::device("cpu"));
  fail(a, "the culprit");
  b.wait(a);
  c.wait(a);
  insist(error_of([&] { b.synchronize(); }).has_value(), "b fails");
  poll(c);
}

WEIR_SCENE(asks) {
  const weir::Stream a(weir::device("cpu")), b(weir::device("cpu"));
  fail(a, "one");
  insist(error_of([&] { a.synchronize(); }).has_value(), "a fails");
  fail(b, "two");
  insist(error_of([&] { weir::synchronize(); }).has_value(), "the device tells of b");
  fail(b, "three");
  const weir::Event e = b.record();
  insist(error_of([&] { e.synchronize(); }).has_value(), "its event throws");
}

WEIR_SCENE(fails_a_hundred_times) {
  for (int i = 0; i < 100; ++i) {
    const weir::Stream s(weir::device("cpu"));
    fail(s, "the culprit");
    poll(s);
  }
}

TEST(ProcessUnseenFailures, a_program_that_only_polls_is_told_at_the_end) {
  const Outcome outcome = play("polls_and_ends");
  EXPECT_TRUE(ended_well(outcome));
  EXPECT_EQ(count_in(outcome.output, "weir: "), 1u) << outcome.output;
  for (const char* word : {"the culprit", "the pipe burst", "process_unseen_failures_test.cpp:"})
    EXPECT_EQ(count_in(outcome.output, word), 1u) << outcome.output;
}

TEST(ProcessUnseenFailures, so_it_is_where_the_stream_is_gone_and_where_a_graph_failed) {
  for (const char* scene : {"fails_in_a_stream_that_goes", "fails_in_a_graph"}) {
    const Outcome outcome = play(scene);
    EXPECT_TRUE(ended_well(outcome));
    EXPECT_EQ(count_in(outcome.output, "the culprit"), 1u) << outcome.output;
  }
}

TEST(ProcessUnseenFailures, what_the_program_was_told_is_not_repeated) {
  for (const char* scene : {"asks", "two_streams_inherit_and_one_of_them_asks"}) {
    const Outcome outcome = play(scene);
    EXPECT_TRUE(ended_well(outcome));
    EXPECT_EQ(count_in(outcome.output, "weir: "), 0u) << outcome.output;
  }
}

TEST(ProcessUnseenFailures, no_more_than_ten_are_printed_and_the_rest_is_counted) {
  const Outcome outcome = play("fails_a_hundred_times");
  EXPECT_TRUE(ended_well(outcome));
  EXPECT_EQ(count_in(outcome.output, "the culprit"), 10u) << outcome.output;
  EXPECT_EQ(count_in(outcome.output, "weir: 90 more failures"), 1u) << outcome.output;
}

TEST(ProcessUnseenFailures, WEIR_REPORT_UNSEEN_0_prints_nothing_and_another_value_is_said) {
  const Outcome off = play("polls_and_ends", {"WEIR_REPORT_UNSEEN=0"});
  EXPECT_TRUE(ended_well(off));
  EXPECT_EQ(count_in(off.output, "weir: "), 0u) << off.output;
  const Outcome odd = play("polls_and_ends", {"WEIR_REPORT_UNSEEN=maybe"});
  EXPECT_TRUE(ended_well(odd));
  EXPECT_EQ(count_in(odd.output, "WEIR_REPORT_UNSEEN is 'maybe'"), 1u) << odd.output;
  EXPECT_EQ(count_in(odd.output, "the culprit"), 1u) << odd.output;
}

}  // namespace
}  // namespace weir_test
