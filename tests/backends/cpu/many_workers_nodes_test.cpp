// Nodes of graphs that wait for each other, in pools of any width; run a second time with WEIR_CPU_WORKERS=16.
#include <gtest/gtest.h>

#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace weir_test {
namespace {

/// Independent nodes, none of which ends before all have begun.
weir::Graph meeting_of(int nodes, Meeting& meeting) {
  weir::GraphBuilder builder(weir::device("cpu:0"));
  for (int i = 0; i < nodes; ++i) meeting.attend(builder);
  return builder.build();
}

/// Replays graphs of nodes that wait for each other; `end` sees to it that a replay's stream has come to its end.
template <typename End>
void expect_that_all_begin(End end) {
  for (const int nodes : {2, 3, 5, 8, 13}) {
    Meeting meeting(nodes);
    const weir::Graph graph = meeting_of(nodes, meeting);
    const weir::Stream stream(weir::device("cpu:0"));
    for (int replay = 0; replay < 5; ++replay) {
      meeting.reset();
      graph.launch(stream);
      ASSERT_TRUE(end(stream)) << nodes << " nodes";
      ASSERT_TRUE(meeting.met()) << nodes << " nodes";
    }
  }
}

TEST(ManyWorkers, nodes_that_wait_for_each_other_all_begin_though_nobody_waits_for_their_graph) {
  expect_that_all_begin([](const weir::Stream& stream) { return eventually([&] { return stream.done(); }); });
}

TEST(ManyWorkers, nodes_that_wait_for_each_other_all_begin_while_a_host_thread_helps) {
  expect_that_all_begin([](const weir::Stream& stream) {
    stream.synchronize();
    return true;
  });
}

}  // namespace
}  // namespace weir_test
