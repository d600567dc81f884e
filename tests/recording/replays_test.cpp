// That a recording which runs again tells tools what the program told them, and guards over nothing tell nothing.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recorder.hpp>
#include <weir/scenario.hpp>
#include <weir/weir.hpp>

#include "cases.hpp"
#include "support/errors.hpp"
#include "support/sanitizers.hpp"

namespace {

using recording_test::scenario;
using weir::Errc;
using weir::Recording;
using weir::recorded::Command;
using weir::recorded::Op;

std::vector<Command> all_of(const Recording& recording, Op op) {
  std::vector<Command> found;
  for (std::size_t i = 0; i < recording.size(); ++i) {
    if (recording.command(i).op == op) found.push_back(recording.command(i));
  }
  return found;
}

Recording read_again(const Recording& recording) { return weir::parse_recording(weir::to_json(recording)); }

/// The recording of its run.
Recording run_again(const Recording& recording) {
  weir::Recorder recorder;
  const weir::RunResult result = weir::run_scenario(recording);
  EXPECT_EQ(result.failures, std::vector<std::string>());
  for (const weir::Misuse& misuse : result.misuse) ADD_FAILURE() << recording.id(misuse.command) << " " << misuse.what;
  return read_again(recorder.finish());
}

std::string name_of_use(const Recording& recording, const Command& command) {
  return recording.text(recording.buffers()[recording.use(command, 0).buffer].name);
}

struct Nothing {
  void operator()(std::size_t, weir::View<float>) const {}
};

TEST(Recorders, keep_no_guard_over_nothing) {
  weir::Recorder recorder;
  {
    const std::vector<int> nothing;
    static_cast<void>(weir::host_read(nothing));
    const auto host = weir::zeros<int>(weir::host, 16);
    static_cast<void>(weir::host_read(host.slice(3, 3)));
    static_cast<void>(weir::host_read(host.slice(3, 4)));
  }
  const Recording recording = read_again(recorder.finish());
  const std::vector<Command> opened = all_of(recording, Op::host_open);
  ASSERT_EQ(opened.size(), 1u);
  EXPECT_EQ(recording.use(opened[0], 0).offset, 12u);
  EXPECT_EQ(all_of(recording, Op::host_close).size(), 1u);
}

TEST(Recordings, refuse_a_use_that_a_command_does_not_have) {
  Recording recording;
  recording.add(weir::recorded::Buffer{.name = recording.intern("x"), .bytes = 8});
  weir::recorded::Command made;
  made.op = Op::host_open;
  made.target_kind = weir::recorded::Target::scope;
  made.target = recording.intern("v");
  recording.add(made);
  EXPECT_TRUE(weir_test::fails_with(
      Errc::invalid_value, [&] { static_cast<void>(recording.use(recording.command(0), 0)); }, {"use 0", "0 uses"}));
  EXPECT_TRUE(
      weir_test::fails_with(Errc::invalid_value, [&] { static_cast<void>(weir::to_json(recording)); }, {"0 uses"}));
}

TEST(Replays, open_the_guards_of_the_program_over_memory_of_the_same_name) {
  weir::Recorder recorder;
  {
    const auto host = weir::zeros<float>(weir::pinned, 64);
    host.set_name("frame");
    std::vector<float> pageable(8);
    auto writes = weir::host_write(host.slice(0, 32));
    static_cast<void>(weir::host_read(pageable));
    writes.close();
    weir::host_gone(pageable.data(), 32);
  }
  Recording recording = read_again(recorder.finish());
  for (int generation = 0; generation < 3; ++generation) {
    const std::vector<Command> opened = all_of(recording, Op::host_open);
    ASSERT_EQ(opened.size(), 2u) << generation;
    EXPECT_EQ(name_of_use(recording, opened[0]), "frame");
    EXPECT_EQ(recording.use(opened[0], 0).bytes, 128u);
    EXPECT_EQ(recording.use(opened[0], 0).access, weir::recorded::Access::out);
    const std::vector<Command> closed = all_of(recording, Op::host_close);
    ASSERT_EQ(closed.size(), 2u);
    EXPECT_EQ(closed[0].target, opened[1].target);
    EXPECT_EQ(closed[1].target, opened[0].target);
    EXPECT_EQ(all_of(recording, Op::free).size(), 2u) << "of the array, and of what is gone";
    recording = run_again(recording);
  }
}

TEST(Replays, guard_what_the_host_reads_and_writes_in_one_command) {
  const Recording recording = run_again(weir::parse_recording(scenario(
      {.program =
           R"({"op": "host_read", "uses": [{"buffer": "p", "bytes": 8}]}, {"op": "host_write", "uses": ["p"]})"})));
  const std::vector<Command> opened = all_of(recording, Op::host_open);
  ASSERT_EQ(opened.size(), 2u);
  EXPECT_EQ(recording.use(opened[0], 0).bytes, 8u);
  EXPECT_EQ(name_of_use(recording, opened[1]), "p");
  EXPECT_EQ(all_of(recording, Op::host_close).size(), 2u);
}

TEST(Replays, hand_off_from_threads_and_host_functions) {
  weir::Recorder recorder;
  {
    weir::Stream stream(weir::device("cpu"));
    weir::HandOff of_thread, of_function;
    std::thread([&] { of_thread.give(); }).join();
    of_thread.take();
    weir::host_call(stream, [&] { of_function.give(); });
    stream.synchronize();
    of_function.take();
  }
  Recording recording = read_again(recorder.finish());
  for (int generation = 0; generation < 3; ++generation) {
    const std::vector<Command> gave = all_of(recording, Op::give), took = all_of(recording, Op::take);
    ASSERT_EQ(gave.size(), 1u) << generation;
    ASSERT_EQ(took.size(), 2u);
    EXPECT_EQ(took[0].target, gave[0].target);
    EXPECT_NE(took[0].thread, gave[0].thread);
    const std::vector<Command> functions = all_of(recording, Op::host_function);
    ASSERT_EQ(functions.size(), 1u);
    const auto gives = recording.gives(functions[0]);
    ASSERT_EQ(gives.size(), 1u);
    EXPECT_EQ(gives[0], took[1].target);
    recording = run_again(recording);
  }
}

TEST(Replays, have_the_streams_of_the_program_and_no_more) {
  weir::Recorder recorder;
  {
    weir::Stream stream(weir::device("cpu"), {.name = "only"});
    const auto x = weir::zeros<float>(stream, 8);
    weir::GraphBuilder builder(weir::device("cpu"));
    const weir::Node node = builder.launch(8, Nothing{}, weir::inout(x));
    weir::Graph graph = builder.build();
    graph.update(node, Nothing{}, weir::inout(x));
    graph.launch(stream);
    stream.synchronize();
  }
  Recording recording = read_again(recorder.finish());
  for (int generation = 0; generation < 3; ++generation) {
    ASSERT_EQ(recording.streams().size(), 1u) << generation;
    EXPECT_STREQ(recording.text(recording.streams()[0].name), "only");
    EXPECT_EQ(all_of(recording, Op::make).size(), 1u);
    const std::vector<Command> dropped = all_of(recording, Op::drop);
    EXPECT_EQ(std::count_if(dropped.begin(), dropped.end(),
                            [](const Command& one) { return one.target_kind != weir::recorded::Target::graph; }),
              1);
    recording = run_again(recording);
  }
}

// By its bodies alone a switch of one or two could be an if.
TEST(Recorders, keep_which_control_a_node_is) {
  weir::Recorder recorder;
  {
    const weir::Stream stream(weir::device("cpu"));
    const auto x = weir::zeros<int>(stream, 8);
    const auto on = weir::zeros<int>(stream, 1);
    weir::GraphBuilder builder(weir::device("cpu"));
    const auto body = [&] { builder.fill(x, 5); };
    builder.switch_(on, body);
    builder.switch_(on, body, body);
    builder.switch_(on, body, body, body);
    builder.if_(on, body);
    builder.if_(on, body, body);
    builder.while_(on, body);
    builder.build().launch(stream);
    stream.synchronize();
  }
  Recording recording = read_again(recorder.finish());
  for (int generation = 0; generation < 2; ++generation) {
    const std::vector<Command> built = all_of(recording, Op::build_graph);
    ASSERT_EQ(built.size(), 1u);
    std::vector<Op> found;
    for (const weir::recorded::Node& node : recording.nodes(built[0])) found.push_back(node.op);
    EXPECT_EQ(found, (std::vector<Op>{Op::switch_, Op::switch_, Op::switch_, Op::if_, Op::if_, Op::while_}));
    recording = run_again(recording);
  }
}

TEST(Recorders, finish_inside_a_host_function_with_what_there_was) {
  weir::Stream stream(weir::device("cpu"));
  auto recorder = std::make_unique<weir::Recorder>();
  const auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Nothing{}, weir::inout(x));
  Recording recording;
  weir::host_call(stream, [&] {
    recording = recorder->finish();
    recorder.reset();
  });
  stream.synchronize();
  weir::launch(stream, 8, Nothing{}, weir::inout(x));
  stream.synchronize();
  EXPECT_EQ(all_of(read_again(recording), Op::launch).size(), 1u);
}

/// Graphs g0 to g`levels`, each eight times within the next one.
std::string nested(int levels) {
  std::string program = R"({"op": "build_graph", "graph": "g0", "nodes": [{"name": "n", "op": "empty"}]})";
  for (int level = 1; level <= levels; ++level) {
    program += R"(, {"op": "build_graph", "graph": "g)" + std::to_string(level) + R"(", "nodes": [)";
    for (int i = 0; i < 8; ++i) {
      program += std::string(i == 0 ? "" : ", ") + R"({"name": "n)" + std::to_string(i) +
                 R"(", "op": "graph", "graph": "g)" + std::to_string(level - 1) + R"("})";
    }
    program += "]}";
  }
  return scenario({.program = program});
}

// Nodes were looked for in lists, for each child anew: minutes.
TEST(ScenarioRuns, of_graphs_with_large_children_last_as_long_as_their_nodes_take) {
  if (weir_test::under_thread_sanitizer) GTEST_SKIP() << "it is about time";
  const Recording recording = weir::parse_recording(nested(6));
  const auto begin = std::chrono::steady_clock::now();
  const weir::RunResult result = weir::run_scenario(recording);
  EXPECT_TRUE(result.misuse.empty());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(50));
}

TEST(ScenarioRuns, refuse_files_whose_graphs_would_fill_the_memory) {
  const auto built = [] { weir::run_scenario(weir::parse_recording(nested(21))); };
  EXPECT_TRUE(weir_test::fails_with(Errc::invalid_value, built, {"command #7", "more than 1000000 nodes"}));
  std::string program = R"({"op": "begin_capture", "stream": "s"}, {"op": "launch", "stream": "s"},
      {"op": "end_capture", "stream": "s", "graph": "g0"})";
  for (int level = 1; level <= 40; ++level) {
    const std::string launch =
        R"({"op": "launch_graph", "stream": "s", "graph": "g)" + std::to_string(level - 1) + R"("}, )";
    program += R"(, {"op": "begin_capture", "stream": "s"}, )" + launch + launch +
               R"({"op": "end_capture", "stream": "s", "graph": "g)" + std::to_string(level) + R"("})";
  }
  const auto captured = [&] { weir::run_scenario(weir::parse_recording(scenario({.program = program}))); };
  EXPECT_TRUE(weir_test::fails_with(Errc::invalid_value, captured, {"more than 1000000 nodes"}));
}

// The nodes of a child are known by their paths, also of a child below one of a condition's bodies.
TEST(ScenarioRuns, change_the_nodes_of_children) {
  const weir::RunResult result = weir::run_scenario(weir::parse_recording(scenario(
      {.program =
           R"({"op": "build_graph", "graph": "in", "nodes": [{"name": "a", "op": "fill", "to": "p"}, {"name": "k", "op": "launch", "uses": ["p"]}]},
  {"op": "build_graph", "graph": "mid", "nodes": [{"name": "c", "op": "graph", "graph": "in"}, {"name": "d", "op": "graph", "graph": "in"}]},
  {"op": "build_graph", "graph": "out", "nodes": [{"name": "e", "op": "empty"}, {"name": "m", "op": "graph", "graph": "mid"},
     {"name": "if", "op": "if", "condition": "c4", "bodies": [[{"name": "x", "op": "graph", "graph": "mid"}]]}]},
  {"op": "update_node", "graph": "out", "node": "m/d/k", "uses": ["a"]}, {"op": "enable_node", "graph": "out", "node": "m/c/a", "enabled": false},
  {"op": "update_node", "graph": "out", "node": "if[0]/x/c/k", "uses": ["a"]}, {"op": "update_node", "graph": "mid", "node": "d/k", "uses": ["a"]})",
       .buffers = R"({"name": "a", "kind": "device", "bytes": 64}, {"name": "p", "kind": "device", "bytes": 64},
       {"name": "c4", "kind": "device", "bytes": 4})"})));
  EXPECT_EQ(result.failures, std::vector<std::string>());
  for (const weir::Misuse& misuse : result.misuse) ADD_FAILURE() << misuse.what;
}

}  // namespace
