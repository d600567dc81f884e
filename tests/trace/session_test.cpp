// What sessions record: commands with what they wait for, waits of the host, ranges; bounded, and in files that survive the program.
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/error.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

#include "support/child.hpp"
#include "support/gate.hpp"
#include "support/sanitizers.hpp"

// As nvcc names an anonymous namespace.
namespace compiled_by_nvcc::_GLOBAL__N__b9b6481a_8_work_cpp_a20acb89 {
struct Nothing {
  void operator()(std::size_t) const {}
};
}  // namespace compiled_by_nvcc::_GLOBAL__N__b9b6481a_8_work_cpp_a20acb89

namespace {

using weir::trace::Lane;
using weir::trace::Session;
using weir::trace::State;
using weir::trace::Timeline;
using weir_test::Gate;
using weir_test::Marker;

std::string place_of(const Timeline& timeline, std::uint32_t place) {
  const weir::trace::Command& command = timeline.commands[place];
  return std::string(timeline.text(timeline.streams[command.stream].name)) + "." +
         std::string(timeline.name_of(command));
}

/// One line for each command: what it is, and what it comes behind.
std::string drawn(const Timeline& timeline) {
  std::string text;
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    text += place_of(timeline, i);
    for (const weir::trace::Dependency& on : timeline.dependencies_of(timeline.commands[i])) {
      text += " <" + std::string(to_text(on.tie)) + "- " + place_of(timeline, on.command);
    }
    text += "\n";
  }
  return text;
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A name of a file that is gone when the test is over.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& ending)
      : path(std::filesystem::temp_directory_path() / ("weir_trace" + std::to_string(getpid()) + ending)) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
  }
  const std::filesystem::path path;
};

TEST(TraceSession, has_commands_in_the_order_of_the_calls_with_what_they_come_behind) {
  Marker marker(4);
  weir::Stream a(weir::default_device(), {.name = "a"}), b(weir::default_device(), {.name = "b"}),
      side(weir::default_device(), {.blocking = false, .name = "side"});
  const int first = __LINE__ + 2;
  Session session;
  mark(a, marker);
  weir::Event e = a.record();
  b.wait(e);
  mark(b, marker, 2, 1);
  mark(side, marker, 3, 2);
  mark(weir::legacy_stream(weir::default_device()), marker, 4, 3);
  mark(b, marker);
  weir::synchronize();
  const Timeline timeline = session.stop();
  EXPECT_EQ(drawn(timeline),
            "a.mark\n"
            "a.record <stream order- a.mark\n"
            "b.wait <event- a.record\n"
            "b.mark <stream order- b.wait\n"
            "side.mark\n"
            "legacy.mark <default stream- a.record <default stream- b.mark\n"
            "b.mark <stream order- b.mark <default stream- legacy.mark\n");
  ASSERT_EQ(timeline.commands.size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) {
    const weir::trace::Command& command = timeline.commands[i];
    EXPECT_EQ(command.state, State::ran);
    EXPECT_EQ(command.line, static_cast<std::uint32_t>(first) + i);
    EXPECT_LE(0, command.call);
    EXPECT_LE(command.begin, command.end);
    EXPECT_LE(command.end, timeline.duration);
    for (const auto& on : timeline.dependencies_of(command)) {
      EXPECT_LE(timeline.commands[on.command].end, command.begin);
    }
  }
  EXPECT_EQ(timeline.commands[0].elements, 1u);
  EXPECT_NE(timeline.commands[1].event, 0u);
  EXPECT_EQ(timeline.commands[1].event, timeline.commands[2].event) << "the wait names the event that was recorded";
  EXPECT_TRUE(std::string(timeline.text(timeline.commands[0].file)).ends_with("session_test.cpp"));
  EXPECT_NE(timeline.program.find("weir_trace_tests"), std::string::npos);
  EXPECT_EQ(timeline.note, "");
}

TEST(TraceSession, names_kernels_in_anonymous_namespaces_readably_whoever_compiled_them) {
  const weir::Stream s(weir::device("cpu"));
  Session session;
  weir::launch(s, 1, compiled_by_nvcc::_GLOBAL__N__b9b6481a_8_work_cpp_a20acb89::Nothing{});
  s.synchronize();
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.commands.size(), 1u);
  EXPECT_EQ(timeline.name_of(timeline.commands[0]), "compiled_by_nvcc::{anonymous}::Nothing");
}

TEST(TraceSession, says_what_it_cost) {
  Session session;
  EXPECT_EQ(session.timeline().clock.find("recording a command took"), std::string::npos) << "none was recorded";
  weir::Stream stream(weir::default_device());
  for (int i = 0; i < 1000; ++i) weir::launch(stream, 1, [](std::size_t) {});
  stream.synchronize();
  const std::string clock = session.stop().clock;
  const std::size_t at = clock.find("; recording a command took ");
  ASSERT_NE(at, std::string::npos) << clock;
  const std::string words = clock.substr(at + 27);
  EXPECT_GT(std::stoi(words), 0);
  EXPECT_EQ(words.substr(words.find(' ')), " ns of its call");
}

TEST(TraceSession, knows_sizes_and_directions_of_copies_and_which_held_the_host) {
  weir::Stream s(weir::device("cpu"));
  Session session;
  auto device = weir::zeros<float>(s, 1000);
  auto pinned = weir::empty<float>(weir::pinned, 1000);
  weir::copy(s, device, pinned);
  weir::copy(s, pinned, device);
  const std::vector<float> read = device.to_host();
  weir::synchronize();
  const Timeline timeline = session.stop();
  std::vector<std::pair<Lane, bool>> copies;
  for (const weir::trace::Command& command : timeline.commands) {
    if (command.lane == Lane::memory || command.lane == Lane::order) continue;
    EXPECT_EQ(command.bytes, 4000u);
    EXPECT_EQ(command.called >= command.end, command.pageable);
    copies.emplace_back(command.lane, command.pageable);
  }
  EXPECT_EQ(copies, (std::vector<std::pair<Lane, bool>>{
                        {Lane::fill, false}, {Lane::copy_in, false}, {Lane::copy_out, false}, {Lane::copy_out, true}}));
}

TEST(TraceSession, says_since_when_the_host_waited_and_for_what) {
  using Wait = std::function<void(weir::StreamRef, weir::EventRef)>;
  struct Case {
    const char* what;
    Wait wait;
  };
  const Case cases[] = {{"s", [](weir::StreamRef s, weir::EventRef) { s.synchronize(); }},
                        {"event", [](weir::StreamRef, weir::EventRef e) { e.synchronize(); }},
                        {"device cpu:0", [](weir::StreamRef s, weir::EventRef) { s.device().synchronize(); }},
                        {"everything", [](weir::StreamRef, weir::EventRef) { weir::synchronize(); }},
                        {"s", [](weir::StreamRef s, weir::EventRef) { weir::AutoSynchronize end(s); }}};
  const weir::Device cpu = weir::device("cpu");
  /// Whether the wait began before what it waits for had ended: not where its thread lost its core on the way.
  const auto waits_in_time = [&](const Case& one) {
    const char* const what = one.what;
    weir::Stream s(cpu, {.name = "s"});
    Session session;
    Gate gate;
    gate.hold(s);
    weir::Event e = s.record();
    EXPECT_TRUE(weir_test::blocks_until_open(cpu, gate, [&] { one.wait(s, e); }));
    weir::synchronize();
    const Timeline timeline = session.stop();
    const weir::trace::HostWait& told = timeline.waits.at(0);
    const weir::trace::Command& held = timeline.commands.at(0);
    EXPECT_EQ(timeline.text(told.what), what);
    EXPECT_GT(told.line, 0u) << what;
    EXPECT_TRUE(std::string(timeline.text(told.file)).ends_with("session_test.cpp")) << what;
    EXPECT_GE(told.end, held.end) << what;
    EXPECT_NE(told.command, weir::trace::none) << what;
    EXPECT_EQ(timeline.streams.at(timeline.commands.at(told.command).stream).id, s.id()) << what;
    return told.begin < held.end;
  };
  for (const Case& one : cases) ASSERT_TRUE(weir_test::eventually([&] { return waits_in_time(one); })) << one.what;
}

TEST(TraceSession, has_what_still_runs_as_pending) {
  weir::Stream s(weir::device("cpu"));
  Session session;
  Gate gate;
  gate.hold(s);
  const Timeline soFar = session.timeline();
  ASSERT_EQ(soFar.commands.size(), 1u);
  EXPECT_EQ(soFar.commands[0].state, State::pending);
  gate.open();
  s.synchronize();
  EXPECT_EQ(session.stop().commands[0].state, State::ran);
}

TEST(TraceSession, several_at_once_each_have_what_came_while_they_ran) {
  Marker marker;
  weir::Stream s;
  Session all;
  mark(s, marker);
  Session inner;
  mark(s, marker);
  s.synchronize();
  EXPECT_EQ(inner.stop().commands.size(), 1u);
  mark(s, marker);
  s.synchronize();
  EXPECT_EQ(all.stop().commands.size(), 3u);
}

TEST(TraceSession, names_what_a_thread_does) {
  Session session;
  {
    weir::trace::Range outer("outer");
    weir::trace::Range inner("inner");
  }
  const Timeline timeline = session.stop();
  ASSERT_EQ(timeline.ranges.size(), 2u);
  EXPECT_EQ(timeline.text(timeline.ranges[0].name), "outer");
  EXPECT_EQ(timeline.text(timeline.ranges[1].name), "inner");
  EXPECT_LE(timeline.ranges[1].end, timeline.ranges[0].end);
}

struct Step {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

TEST(TraceSession, has_the_nodes_of_each_replay_with_their_names_lines_and_times) {
  weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<int>(s, 200'000);
  const auto y = weir::zeros<int>(s, 200'000);
  const auto captured = [&] {
    return capture(s, [&] {
      launch(s, x.size(), Step{}, inout(x));
      weir::copy(s, y, x);
      weir::Event e;
      s.record(e);
      s.wait(e);
    });
  };
  const weir::Graph older = captured();
  Session session;
  const weir::Graph newer = captured();
  older.launch(s);
  newer.launch(s);
  newer.launch(s);
  s.synchronize();
  const Timeline timeline = session.stop();
  std::vector<std::string> seen;
  for (const weir::trace::NodeRun& node : timeline.nodes) {
    const weir::trace::Command& launch = timeline.commands[node.command];
    EXPECT_EQ(launch.lane, Lane::graph);
    EXPECT_GE(node.begin, launch.begin);
    EXPECT_LE(node.end, launch.end);
    EXPECT_GT(node.end, node.begin);
    EXPECT_NE(timeline.text(node.file).find("session_test.cpp"), std::string_view::npos);
    EXPECT_GT(node.line, 0u);
    seen.push_back(std::to_string(node.command) + " " + std::string(timeline.name_of(node)));
  }
  ASSERT_EQ(seen.size(), 6u) << "records and waits take no time";
  for (std::size_t launch = 0; launch < 3; ++launch) {
    EXPECT_NE(seen[2 * launch].find("Step"), std::string::npos) << seen[2 * launch];
    EXPECT_NE(seen[2 * launch + 1].find("copy"), std::string::npos) << seen[2 * launch + 1];
  }
  EXPECT_NE(seen[0].substr(0, seen[0].find(' ')), seen[2].substr(0, seen[2].find(' ')));
}

struct Other {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 2; }
};

TEST(TraceSession, has_a_node_that_was_updated_as_each_launch_has_it) {
  weir::Stream s(weir::device("cpu"));
  const auto x = weir::zeros<int>(s, 200'000);
  const auto names = [](const Timeline& timeline) {
    std::string text;
    for (const weir::trace::NodeRun& node : timeline.nodes) {
      text += timeline.name_of(node).find("Other") != std::string_view::npos ? "Other " : "Step ";
    }
    return text;
  };
  Session session;
  weir::GraphBuilder builder;
  const auto node = builder.launch(x.size(), Step{}, inout(x));
  weir::Graph graph = builder.build();
  graph.launch(s);
  s.synchronize();
  graph.update(node, Other{}, inout(x));
  graph.launch(s);
  s.synchronize();
  const Session later;
  graph.launch(s);
  s.synchronize();
  graph.update(node, Step{}, inout(x));
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(names(session.stop()), "Step Other Other Step ");
  EXPECT_EQ(names(later.timeline()), "Other Step ");
}

TEST(TraceSession, start_and_stop_while_threads_submit) {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      Marker marker;
      weir::Stream s;
      while (!over) {
        const weir::trace::Range range("round");
        for (int i = 0; i < 20; ++i) mark(s, marker);
        s.synchronize();
      }
    });
  }
  std::size_t commands = 0;
  for (int i = 0; i < 20 || commands == 0; ++i) {
    Session one({.limit = 1 << 20});
    Session other;
    weir::Stream s;
    Marker marker;
    mark(s, marker);
    s.synchronize();
    commands += one.timeline().commands.size();
    EXPECT_GE(other.stop().commands.size(), 1u);
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(TraceSession, refuses_a_file_that_cannot_be_written) {
  try {
    Session session({.file = "/nowhere/at/all.json"});
    FAIL() << "it was taken";
  } catch (const weir::Error& error) {
    EXPECT_EQ(error.errc(), weir::Errc::invalid_value);
    EXPECT_NE(std::string(error.what()).find("/nowhere/at/all.json"), std::string::npos) << error.what();
  }
}

WEIR_SCENE(works_until_it_is_killed) {
  Marker marker;
  weir::Stream s(weir::default_device(), {.name = "killed"});
  mark(s, marker);
  s.synchronize();
  const std::filesystem::path path = std::getenv("WEIR_TRACE");
  weir_test::insist(weir_test::eventually([&] { return contents(path).find("\"mark\"") != std::string::npos; }),
                    "the file gets what has run");
  std::raise(SIGKILL);
}

TEST(TraceProcess, that_is_killed_leaves_a_whole_file) {
  const TemporaryFile file(".json");
  const weir_test::Outcome outcome = weir_test::play("works_until_it_is_killed", {"WEIR_TRACE=" + file.path.string()});
  EXPECT_TRUE(outcome.ended) << outcome.output;
  EXPECT_EQ(outcome.status & 0x7f, SIGKILL) << outcome.output;
  EXPECT_TRUE(contents(file.path).ends_with("]}\n"));
}

WEIR_SCENE(works_and_forks) {
  Marker marker;
  weir::Stream s;
  mark(s, marker);
  s.synchronize();
  const pid_t child = fork();
  if (child == 0) std::exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  weir_test::insist(status == 0, "the child ends well");
  mark(s, marker);
}

TEST(TraceProcess, that_forks_has_the_timeline_to_itself) {
  if (weir_test::under_address_sanitizer) {
    GTEST_SKIP() << "LeakSanitizer's own lock does not survive a fork beside other threads";
  }
  const TemporaryFile file(".json");
  EXPECT_TRUE(ended_well(weir_test::play("works_and_forks", {"WEIR_TRACE=" + file.path.string()})));
  EXPECT_NE(contents(file.path).find("\"commands\": 2,"), std::string::npos);
}

WEIR_SCENE(works_and_ends) {
  Marker marker;
  weir::Stream s;
  for (int i = 0; i < 10; ++i) mark(s, marker);
}

TEST(TraceProcess, is_recorded_if_the_environment_asks_for_it) {
  const TemporaryFile file(".json");
  const weir_test::Outcome outcome = weir_test::play("works_and_ends", {"WEIR_TRACE=" + file.path.string()});
  EXPECT_TRUE(ended_well(outcome));
  EXPECT_NE(contents(file.path).find("\"commands\": 10,"), std::string::npos);
  const weir_test::Outcome refused = weir_test::play("works_and_ends", {"WEIR_TRACE=/nowhere/run.json"});
  EXPECT_NE(refused.output.find("WEIR_TRACE"), std::string::npos) << refused.output;
}

}  // namespace
