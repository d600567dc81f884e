// Graphs in the model: nodes beside and behind each other, and launches one after the other.
#include "predict/model_fixture.hpp"

namespace {

using namespace weir::sim::model;
using predict_test::ModelTest;

TEST_F(ModelTest, a_graph_in_the_legacy_stream_separates_as_a_whole) {
  const std::uint32_t blocking = stream(Stream::Kind::blocking), legacy = stream(Stream::Kind::legacy);
  Task node;
  node.work = Work::kernel;
  node.block_us = 10;
  program.graphs.push_back({{task(node), {}}});
  kernel(blocking, 5);
  call(Action::launch_graph, legacy, 0);
  kernel(blocking, 5);
  const Result result = run();
  expect(result, 2, 5, 15);
  expect(result, 4, 15, 20);
}

TEST_F(ModelTest, graphs_run_their_branches_side_by_side_and_end_before_what_comes_behind) {
  profile.hop.graph_us = 1;
  const std::uint32_t s = stream();
  Task node;
  node.work = Work::kernel;
  node.block_us = 10;
  const std::uint32_t one = task(node);
  program.graphs.push_back({{one, {}}, {one, {0}}, {one, {}}});
  call(Action::launch_graph, s, 0);
  kernel(s, 10);
  const Result result = run();
  expect(result, 1, 0, 10);
  expect(result, 2, 11, 21);
  expect(result, 3, 0, 10);
  expect(result, 5, 21, 31);
}

TEST_F(ModelTest, launches_of_one_graph_come_one_after_the_other_whatever_their_streams) {
  const std::uint32_t a = stream(), b = stream();
  Task node;
  node.work = Work::kernel;
  node.block_us = 10;
  const std::uint32_t one = task(node);
  program.graphs.push_back({{one, {}}});
  program.graphs.push_back({{one, {}}});
  call(Action::launch_graph, a, 0);
  call(Action::launch_graph, b, 0);
  call(Action::launch_graph, b, 1);
  call(Action::launch_graph, a, 1);
  const Result result = run();
  expect(result, 1, 0, 10);
  expect(result, 4, 10, 20);
  expect(result, 7, 20, 30);
  expect(result, 10, 30, 40);
}

}  // namespace
