// A recorded program and its replay have the same commands, order, dependencies and regions: of every shared case, graphs, waits,
// guards and threads included, and of a program with something of everything.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/recorder.hpp>
#include <weir/scenario.hpp>
#include <weir/weir.hpp>

#include "cases.hpp"
#include "support/sanitizers.hpp"

namespace {

using recording_test::Case;
using recording_test::cases;
using weir::Recording;
using weir::recorded::Command;
using weir::recorded::Node;
using weir::recorded::none;
using weir::recorded::Op;
using weir::recorded::Target;
using weir::recorded::Use;

/// All that a recording says of a program but times and lines. What is made has a number in the order in which it is met, whatever its name.
class Program {
 public:
  explicit Program(const Recording& recording) : recording_(recording) {
    for (std::size_t i = 0; i < recording.size(); ++i) add(recording.command(i));
    strip();
    for (std::size_t i = 0; i < lines.size(); ++i) {
      lines[i] = (threads_[i] == none ? "" : number("t", threads_[i])) + lines[i];
    }
  }
  std::vector<std::string> lines;

 private:
  void strip() {
    // Whoever runs a recording waits before its first call and behind its last one; and what a graph kept alive ends at the last
    // moment, or with the process.
    const auto has = [](const std::string& line, const char* part) { return line.find(part) != std::string::npos; };
    const auto waits = [&](const std::string& line) { return has(line, " synchronize "); };
    const auto ends = [&](const std::string& line) { return waits(line) || has(line, " free "); };
    while (!lines.empty() && ends(lines.back())) lines.pop_back();
    const auto first = std::find_if_not(lines.begin(), lines.end(), waits);
    threads_.erase(threads_.begin(), threads_.begin() + (first - lines.begin()));
    lines.erase(lines.begin(), first);
  }
  void add(const Command& one) {
    if (one.op == Op::make || one.op == Op::drop) return;  // whoever runs a recording does it when it is due
    if (one.op == Op::build_graph) {  // what is in it is told where it is launched, that of its children with it
      const auto nodes = recording_.nodes(one);
      graphs_[one.target].assign(nodes.begin(), nodes.end());
      return;
    }
    // Nobody is told which thread changes a graph.
    const bool of_graph = one.op == Op::update_node || one.op == Op::enable_node;
    threads_.push_back(of_graph ? none : one.thread);
    std::string line = " " + std::string(weir::recorded::to_text(one.op));
    if (one.stream != none) line += " on " + stream(one.stream);
    line += target(one.target_kind, one.target);
    if (one.name != none && one.op == Op::launch) line += std::string(" ") + recording_.text(one.name);
    if (one.op == Op::update_node || one.op == Op::enable_node) line += number(" node ", one.name);
    line += one.flag ? " flag" : "";
    line += one.ends ? " ends" : "";
    for (std::size_t i = 0; i < recording_.use_count(one); ++i) line += use(recording_.use(one, i));
    for (const weir::recorded::Name name : recording_.gives(one)) line += " gives " + number("hand off ", name);
    if (one.op == Op::launch_graph) line += text(graphs_[one.target]);
    lines.push_back(line);
  }
  std::string text(const std::vector<Node>& nodes) {
    std::string all = " (";
    for (const Node& one : nodes) all += text(one) + "; ";
    return all + ")";
  }
  std::string text(const Node& node) {
    std::string line(weir::recorded::to_text(node.op));
    line += node.target_kind == Target::graph ? text(graphs_[node.target]) : target(node.target_kind, node.target);
    for (const Use& one : node.uses) line += use(one);
    for (const std::uint32_t before : node.after) line += " <- " + std::to_string(before);
    for (const std::vector<Node>& body : node.bodies) line += text(body);
    return line;
  }
  std::string target(Target kind, std::uint32_t which) {
    switch (kind) {
      case Target::none: return "";
      case Target::stream: return " " + stream(which);
      case Target::event: return " " + number("event ", which);
      case Target::device: return " device " + std::to_string(which);
      case Target::buffer: return " " + number("x", which);
      case Target::graph: return " " + number("graph ", which);
      case Target::scope: return " " + number("scope ", which);
      case Target::hand_off: return " " + number("hand off ", which);
      case Target::all: return " all";
    }
    return " ?";
  }
  std::string stream(std::uint32_t place) {
    const weir::recorded::Stream& one = recording_.streams()[place];
    return number("s", place) + "/" + std::to_string(static_cast<int>(one.kind)) + "/" + std::to_string(one.priority);
  }
  std::string use(const Use& one) {
    std::string text = " {" + std::to_string(static_cast<int>(one.access)) + " " + number("x", one.buffer) + "+" +
                       std::to_string(one.offset) + " " + std::to_string(one.bytes);
    for (std::size_t d = 0; d < one.dimensions; ++d) {
      text += " " + std::to_string(one.repeat[d].count) + "*" + std::to_string(one.repeat[d].stride);
    }
    return text + "}";
  }
  std::string number(const std::string& kind, std::uint32_t which) {
    std::map<std::uint32_t, std::size_t>& known = known_[kind];
    return kind + std::to_string(known.emplace(which, known.size()).first->second);
  }

  const Recording& recording_;
  std::vector<std::uint32_t> threads_;  ///< of each line
  std::map<std::uint32_t, std::vector<Node>> graphs_;
  std::map<std::string, std::map<std::uint32_t, std::size_t>> known_;
};

/// Where the second differs from the first.
std::string difference(const std::vector<std::string>& first, const std::vector<std::string>& second) {
  for (std::size_t i = 0; i < std::max(first.size(), second.size()); ++i) {
    const std::string one = i < first.size() ? first[i] : "nothing", other = i < second.size() ? second[i] : "nothing";
    if (one != other) return "command " + std::to_string(i) + ": " + one + "\nthen: " + other;
  }
  return "";
}

/// The recording of a run, through a file; and what was refused.
std::pair<Recording, std::size_t> run_again(const Recording& recording) {
  weir::Recorder recorder;
  const weir::RunResult result = weir::run_scenario(recording);
  return {weir::parse_recording(weir::to_json(recorder.finish())), result.misuse.size()};
}

TEST(Replays, of_every_shared_case_have_all_that_was_recorded) {
  std::size_t compared = 0, with_graphs = 0;
  for (const Case& one : cases()) {
    if (weir_test::under_thread_sanitizer && !one.clean) continue;
    const Recording scenario = weir::parse_recording(one.text);
    if (weir::devices_of(scenario) > weir::devices("cpu").size()) continue;
    const auto [first, refused] = run_again(scenario);
    if (refused != 0) continue;  // what was refused is nowhere
    const auto [second, again] = run_again(first);
    EXPECT_EQ(again, 0u) << one.id;
    const std::vector<std::string> lines = Program(first).lines;
    EXPECT_EQ(difference(lines, Program(second).lines), "") << one.id;
    ++compared;
    for (const std::string& line : lines) {
      if (line.find("launch_graph") == std::string::npos) continue;
      ++with_graphs;
      break;
    }
  }
  EXPECT_GE(compared, 60u);
  EXPECT_GE(with_graphs, 8u);
}

struct Column {
  void operator()(std::size_t, weir::View<const float, 2>, weir::View<float>) const {}
};
struct Step {
  void operator()(std::size_t i, weir::View<const float> x, weir::View<float> y) const { y[i] += x[i]; }
};

/// Streams of three kinds, an event that is recorded twice, a column of a matrix, the default stream, memory of a pool, guards, a
/// second thread and its hand-off, and a graph with a child, a body, and a node that is changed and one that is disabled.
void everything() {
  const weir::Device cpu = weir::device("cpu");
  weir::Stream a(cpu, {.name = "a"}), b(cpu, {.blocking = false, .name = "b"});
  auto matrix = weir::zeros<float>(a, {8, 8});
  auto x = weir::zeros<float>(a, 8), y = weir::zeros<float>(b, 8);
  std::vector<float> host(64, 1.0f);
  weir::Event e(cpu);
  a.record(e);
  b.wait(e);
  weir::copy(a, matrix, host);
  a.record(e);
  b.wait(e);
  weir::launch(b, 8, Column{}, weir::in(matrix.slice({{0, 8}, {3, 4}})), weir::inout(y));
  weir::launch(weir::legacy_stream(cpu), 8, Step{}, weir::in(x), weir::inout(y));
  b.wait(a);
  void* const block = weir::default_pool(cpu).allocate(b, 256);
  weir::launch(b, 4, Step{}, weir::in(y), weir::out(weir::View<float>(static_cast<float*>(block), 4)));
  weir::default_pool(cpu).free(b, block);
  const weir::HandOff handed;
  weir::host_call(a, [&] { handed.give(); });
  a.synchronize();
  std::thread([&] {
    handed.take();
    weir::copy(b, host, matrix);
    static_cast<void>(weir::host_read(host));
    handed.give();
  }).join();
  handed.take();
  weir::host_update(host)[3] = 2;
  auto condition = weir::zeros<std::int32_t>(a, 1);
  weir::GraphBuilder inner(cpu);
  inner.fill(x, 2.0f);
  weir::GraphBuilder builder(cpu);
  const weir::Node first = builder.fill(y, 1.0f);
  const weir::LaunchNode second = builder.launch(8, Step{}, weir::in(x), weir::inout(y));
  builder.depends(second, first);
  const weir::Node child = builder.graph(inner.build());
  builder.depends(child, second);
  weir::Graph graph = builder.build();
  const weir::Graph captured = weir::capture(a, [&] {
    weir::capture_if(a, condition, [&] { weir::fill(a, x, 3.0f); });
    weir::launch(a, 8, Step{}, weir::in(y), weir::inout(x));
  });
  weir::synchronize();
  graph.launch(a);
  captured.launch(a);
  graph.update(second, weir::in(y), weir::inout(x));
  graph.disable(first);
  graph.launch(b);
  weir::synchronize();
}

TEST(Replays, of_a_program_with_something_of_everything_have_all_that_was_recorded) {
  weir::Recorder recorder;
  everything();
  const Recording first = weir::parse_recording(weir::to_json(recorder.finish()));
  const auto [second, refused] = run_again(first);
  EXPECT_EQ(refused, 0u);
  const std::vector<std::string> lines = Program(first).lines;
  EXPECT_EQ(difference(lines, Program(second).lines), "");
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  for (const char* part :
       {"record on", "wait on", "event 1", "8*32", "/2/0", "host_function", "gives", "take", "host_open", "graph (fill",
        "if {", "launch_graph", "update_node", "enable_node", "t1 copy"}) {
    EXPECT_NE(all.find(part), std::string::npos) << part << " is not in\n" << all;
  }
}

}  // namespace
