// `weir check`: what it prints, its exit codes, and what it refuses.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;

class CheckVerb : public testing::Test {
 protected:
  CheckVerb() {
    folder_ = std::filesystem::temp_directory_path() / ("weir check " + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  ~CheckVerb() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::string file(const std::string& name, const std::string& text) const {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  }
  static std::string scenario(const std::string& program, const std::string& more = "") {
    return R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "own", "kind": "blocking"}, {"name": "compute",
        "kind": "non_blocking"}], "events": [{"name": "e"}, {"name": "f"}], "buffers": [{"name": "a", "kind": "device", "bytes": 4096,
        "start": "later"}, {"name": "h", "kind": "pageable", "bytes": 64, "owner": "user"}])" +
           more + R"(, "program": [)" + program + "]}";
  }
  /// Row W19: the guide's forgotten wait.
  static constexpr const char* zeros =
      R"({"op": "alloc", "buffer": "a", "stream": "own"}, {"op": "fill", "stream": "own", "to": "a"})";
  static constexpr const char* scale =
      R"({"op": "launch", "stream": "compute", "name": "Scale", "uses": [{"buffer": "a", "access": "inout"}]})";

 private:
  std::filesystem::path folder_;
};

json only_line(const Result& result) {
  EXPECT_EQ(result.out.find('\n'), result.out.size() - 1) << result.out;
  return json::parse(result.out);
}

TEST_F(CheckVerb, bytes_that_an_update_brings_into_a_race_of_nodes_are_told_too) {
  const std::string path =
      file("moves.json", R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind":
      "non_blocking"}], "events": [], "buffers": [{"name": "d", "kind": "device", "bytes": 6400}], "program": [
      {"op": "build_graph", "graph": "g", "nodes": [{"name": "k1", "op": "launch", "uses": [{"buffer": "d", "access": "out"}]},
        {"name": "k2", "op": "launch", "uses": [{"buffer": "d", "bytes": 64, "access": "in"}]}]},
      {"id": "first", "op": "launch_graph", "graph": "g", "stream": "s"},
      {"op": "update_node", "graph": "g", "node": "k2", "uses": [{"buffer": "d", "offset": 32, "bytes": 64, "access": "in"}]},
      {"id": "second", "op": "launch_graph", "graph": "g", "stream": "s"},
      {"op": "launch_graph", "graph": "g", "stream": "s"}]})");
  const json findings = only_line(tool_test::run({"check", "--json", path}))["findings"];
  ASSERT_EQ(findings.size(), 2u) << findings.dump();
  EXPECT_EQ(findings[0]["second"]["command"], "first");
  EXPECT_EQ(findings[0]["bytes"], json::parse("[[0, 64]]"));
  EXPECT_EQ(findings[1]["second"]["command"], "second");
  EXPECT_EQ(findings[1]["bytes"], json::parse("[[64, 96]]"));
}

// By an update, for a builder's node takes no memory that begins further down. `after`: nothing, or the node itself.
TEST_F(CheckVerb, memory_that_a_later_node_of_the_launch_begins_is_used_too_early) {
  for (const std::string after : {"", R"("k")"}) {
    const std::string path =
        file("early.json", R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind":
      "non_blocking"}], "events": [], "buffers": [{"name": "a", "kind": "device", "bytes": 64}, {"name": "m", "kind": "device",
      "bytes": 64, "owner": "pool", "start": "later"}], "program": [
      {"op": "build_graph", "graph": "g", "nodes": [{"name": "k", "op": "launch", "uses": [{"buffer": "a", "access": "out"}]},
        {"name": "begin", "op": "alloc", "buffer": "m", "after": [)" +
                               after + R"(]}, {"name": "end", "op": "free", "buffer": "m", "after": ["begin", "k"]}]},
      {"op": "update_node", "graph": "g", "node": "k", "uses": [{"buffer": "m", "access": "out"}]},
      {"id": "first", "op": "launch_graph", "graph": "g", "stream": "s"},
      {"op": "launch_graph", "graph": "g", "stream": "s"}]})");
    const json findings = only_line(tool_test::run({"check", "--json", path}))["findings"];
    ASSERT_EQ(findings.size(), 1u) << findings.dump();
    EXPECT_EQ(findings[0]["kind"], "use_before_alloc");
    EXPECT_EQ(findings[0]["second"]["command"], "first");
    EXPECT_EQ(findings[0]["second"]["node"], "k");
    EXPECT_EQ(findings[0]["first"]["node"], "begin");
    EXPECT_TRUE(findings[0]["mend"].is_null()) << "`after` names nodes further up";
  }
}

// The checker asks for the order alone: nothing lasts, and a loop's condition in memory that nothing has written reads zero.
TEST_F(CheckVerb, neither_costs_nor_unwritten_conditions_keep_it) {
  const std::string path =
      file("long.json", R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind":
      "blocking"}], "events": [], "buffers": [{"name": "c", "kind": "device", "bytes": 64, "contents": "unwritten"},
      {"name": "d", "kind": "device", "bytes": 64}], "program": [
      {"op": "build_graph", "graph": "g", "nodes": [{"name": "n", "op": "while", "condition": {"buffer": "c", "bytes": 4},
        "bodies": [[{"name": "m", "op": "launch", "uses": [{"buffer": "d", "access": "out"}]}]]}]},
      {"op": "launch_graph", "graph": "g", "stream": "s"},
      {"op": "launch", "stream": "s", "uses": ["d"], "cost": {"ns": 90000000000}},
      {"op": "work", "ns": 90000000000}]})");
  const Result result = tool_test::run({"check", "--json", path});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json findings = only_line(result)["findings"];
  ASSERT_EQ(findings.size(), 1u) << findings.dump();
  EXPECT_EQ(findings[0]["kind"], "uninitialised_read");
}

TEST_F(CheckVerb, conditions_copied_from_memory_that_nobody_wrote_keep_it_from_ending_nowhere) {
  setenv("MALLOC_PERTURB_", "85", 1);  // what others had there
  for (const std::string kind : {"device", "pinned", "pageable"}) {
    const std::string path = file(
        "copied.json", R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind": "non_blocking"}],
        "events": [], "buffers": [{"name": "c", "kind": "device", "bytes": 64, "home": "s"},
        {"name": "d", "kind": "device", "bytes": 64}, {"name": "m", "kind": ")" +
                           kind + R"(", "bytes": 64, "start": "later"}, {"name": "n", "kind": "device", "bytes": 64,
        "start": "later"}], "program": [{"op": "alloc", "buffer": "m", "stream": "s"},
        {"op": "copy", "stream": "s", "to": "c", "from": "m"}, {"op": "build_graph", "graph": "g", "nodes": [
        {"name": "a", "op": "alloc", "buffer": "n"}, {"name": "b", "op": "copy", "to": "c",
        "from": "n", "after": ["a"]}, {"name": "w", "op": "while", "after": ["b"],
        "condition": {"buffer": "c", "bytes": 4}, "bodies": [[{"name": "k", "op": "launch",
        "uses": [{"buffer": "d", "access": "out"}]}]]}]}, {"op": "launch_graph", "stream": "s", "graph": "g"}]})");
    const Result result = tool_test::run({"check", "--json", path});
    EXPECT_EQ(result.err, "") << kind;
    EXPECT_GE(only_line(result)["findings"].size(), 1u) << result.out;  // it reads what nobody wrote
  }
  unsetenv("MALLOC_PERTURB_");
}

TEST_F(CheckVerb, W19_tells_the_forgotten_wait_of_the_guide_and_the_line_that_mends_it) {
  const std::string path = file("guide.json", scenario(std::string(zeros) + ", " + scale));
  const Result result = tool_test::run({"check", path});
  EXPECT_EQ(result.exit_code, 1);
  for (const std::string& part :
       {std::string(
            "hazard: use_before_alloc, also read_after_write, write_after_write, of \"a\": bytes [0, 4096) of 4096\n"),
        std::string("  second  launch Scale (use 0, inout)  stream \"compute\"  ") + path + ":3\n",
        std::string("nothing orders \"compute\" behind \"own\": no wait between them so far\n"),
        std::string("compute.wait(own);      proved: the finding is gone, nothing new\n"),
        std::string("  seen    once; key use_before_alloc:#2:#0:a\n"),
        std::string("3 commands, 1 error, 0 warnings, 0 hints\n")}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << result.out;
  }
}

TEST_F(CheckVerb, writes_one_object_for_each_file) {
  const std::string wrong = file("wrong.json", scenario(std::string(zeros) + ", " + scale));
  const std::string right = file(
      "right.json", scenario(std::string(zeros) + R"(, {"op": "wait", "stream": "compute", "for": "own"}, )" + scale));
  const Result result = tool_test::run({"check", "--json", wrong, right});
  EXPECT_EQ(result.exit_code, 1);
  const std::size_t end = result.out.find('\n');
  const json first = json::parse(result.out.substr(0, end)), second = json::parse(result.out.substr(end + 1));
  EXPECT_EQ(first["format"], "weir.findings");
  EXPECT_EQ(first["program"], wrong);
  EXPECT_EQ(first["host_order"], "declared");
  ASSERT_EQ(first["findings"].size(), 1u);
  const json& finding = first["findings"][0];
  EXPECT_EQ(finding["kind"], "use_before_alloc");
  EXPECT_EQ(finding["also"], json({"read_after_write", "write_after_write"}));
  EXPECT_EQ(finding["first"]["op"], "alloc");
  EXPECT_EQ(finding["bytes"], json({{0, 4096}}));
  EXPECT_EQ(finding["mend"]["insert"],
            json::array({{{"before", "#2"}, {"op", {{"op", "wait"}, {"stream", "compute"}, {"for", "own"}}}}}));
  EXPECT_TRUE(second["findings"].empty());
  EXPECT_EQ(second["summary"]["commands"], 4);
}

TEST_F(CheckVerb, ends_with_0_without_errors) {
  const Result hint = tool_test::run(
      {"check", "--json", "--hints", file("h.json", scenario(R"({"op": "wait", "stream": "compute", "event": "e"})"))});
  EXPECT_EQ(hint.exit_code, 0);
  EXPECT_EQ(only_line(hint)["findings"][0]["kind"], "empty_wait");
  // Memory that Weir neither allocated nor pinned: others may order it.
  const Result warning = tool_test::run(
      {"check", "--json",
       file("w.json",
            scenario(R"({"op": "host_function", "stream": "compute", "uses": [{"buffer": "h", "access": "out"}]},
                                  {"op": "host_read", "uses": ["h"]})"))});
  EXPECT_EQ(warning.exit_code, 0);
  EXPECT_EQ(only_line(warning)["findings"][0]["severity"], "warning");
}

TEST_F(CheckVerb, reports_what_the_library_refuses) {
  const Result result = tool_test::run(
      {"check", "--json",
       file("m.json", scenario(std::string(zeros) + R"(, {"op": "free", "buffer": "a", "stream": "own"}, )" + scale))});
  EXPECT_EQ(result.exit_code, 1);
  const json report = only_line(result);
  ASSERT_EQ(report["findings"].size(), 1u);
  EXPECT_EQ(report["findings"][0]["kind"], "misuse");
  EXPECT_EQ(report["findings"][0]["errc"], "already_freed");
}

TEST_F(CheckVerb, judges_threads_by_the_order_that_is_asked_for) {
  const std::string path = file(
      "t.json",
      scenario(
          R"({"op": "host_write", "thread": "T1", "uses": ["h"]}, {"op": "host_read", "thread": "T2", "uses": ["h"]})",
          R"(, "threads": ["T1", "T2"])"));
  EXPECT_EQ(only_line(tool_test::run({"check", "--json", path}))["findings"].size(), 1u);
  EXPECT_EQ(only_line(tool_test::run({"check", "--json", "--host-order", "observed", path}))["findings"].size(), 0u);
  EXPECT_EQ(tool_test::run({"check", "--host-order", "guessed", path}).exit_code, 2);
}

TEST_F(CheckVerb, leaves_out_what_is_suppressed_with_a_reason) {
  const std::string path = file("s.json", scenario(std::string(zeros) + ", " + scale));
  const std::string known = file("known", "use_* a *:3 *:1  # on purpose\nleak * * *  # never seen\n");
  const Result result = tool_test::run({"check", "--suppress", known, path});
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_NE(result.out.find("1 suppressed"), std::string::npos);
  EXPECT_NE(result.out.find("a suppression matched nothing: leak * * *  # never seen"), std::string::npos);
  const Result bad = tool_test::run({"check", "--suppress", file("bad", "use_before_alloc a * *\n"), path});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_NE(bad.err.find("bad:1"), std::string::npos) << bad.err;
  EXPECT_NE(bad.err.find("reason"), std::string::npos) << bad.err;
}

TEST_F(CheckVerb, tells_no_more_findings_than_asked_for) {
  const std::string two = std::string(scale) + ", " + scale;
  const Result result =
      tool_test::run({"check", "--json", "--max", "1", file("n.json", scenario(std::string(zeros) + ", " + two))});
  const json report = only_line(result);
  EXPECT_EQ(report["findings"].size(), 1u);
  EXPECT_EQ(report["summary"]["dropped"], 1);
  EXPECT_EQ(result.exit_code, 1);
}

TEST_F(CheckVerb, names_the_member_of_a_file_that_is_wrong) {
  const std::vector<std::pair<const char*, const char*>> wrong = {
      {R"({"op": "launch", "stream": "nobody"})", "program[0].stream"},
      {R"({"op": "jump", "stream": "own"})", "program[0].op"},
      {R"({"stream": "own"})", "program[0].op"},
      {R"({"op": "launch", "stream": "own", "uses": ["x"]})", "program[0].uses[0]"},
      {R"({"op": "host_read", "uses": ["h", {"buffer": "h", "offset": 60, "bytes": 8}]})", "program[0].uses[1].bytes"},
      {R"({"op": "host_read", "uses": [{"buffer": "h", "access": "write"}]})", "program[0].uses[0].access"},
      {R"({"op": "host_read", "uses": [{"buffer": "h", "bytes": -1}]})", "program[0].uses[0].bytes"},
      {R"({"op": "host_read", "uses": [{"buffer": "h", "repeat": [[1, 2], [1, 2], [1, 2], [1, 2]]}]})",
       "program[0].uses[0].repeat"},
      {R"({"op": "launch", "stream": "own", "colour": 3})", "program[0].colour"},
      {R"({"op": "copy", "stream": "own", "to": "h"})", "program[0].from"},
      {R"({"op": "copy", "stream": "own", "to": "h", "from": {"buffer": "h", "bytes": 8}})", "program[0].from"},
      {R"({"id": "k", "op": "launch", "stream": "own"}, {"id": "k", "op": "launch", "stream": "own"})",
       "program[1].id"},
      {R"({"op": "record", "stream": "own", "event": "g"})", "program[0].event"},
      {R"({"op": "wait", "stream": "own", "for": "x"})", "program[0].for"},
      {R"({"op": "synchronize"})", "program[0]"},
      {R"({"op": "query", "event": "e", "answer": "yes"})", "program[0].answer"},
      {R"({"op": "host_close", "scope": "x"})", "program[0].scope"},
      {R"({"op": "launch_graph", "stream": "own", "graph": "x"})", "program[0].graph"},
      {R"({"op": "alloc", "buffer": "h", "stream": "own"})", "program[0].buffer"},
      {R"({"op": "launch", "stream": "own", "thread": "x"})", "program[0].thread"},
      {R"({"op": "build_graph", "graph": "g", "nodes": [{"name": "k", "op": "launch", "after": ["x"]}]})",
       "program[0].nodes[0].after[0]"},
      {R"({"op": "build_graph", "graph": "g", "nodes": [{"name": "c", "op": "if", "condition": "h",
           "bodies": [[{"name": "k", "op": "fill", "to": "x"}]]}]})",
       "program[0].nodes[0].bodies[0][0].to"},
  };
  for (const auto& [program, member] : wrong) {
    const Result result = tool_test::run({"check", file("x.json", scenario(program))});
    EXPECT_EQ(result.exit_code, 2) << program;
    EXPECT_EQ(result.out, "") << program;
    EXPECT_NE(result.err.find("x.json: " + std::string(member) + ": "), std::string::npos) << program << result.err;
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_EQ(tool_test::run({"check"}).exit_code, 2);
}

TEST_F(CheckVerb, takes_a_thousand_files_in_one_process) {
  const std::string path = file("k.json", scenario(zeros));
  std::vector<std::string> arguments = {"check", "--json"};
  arguments.insert(arguments.end(), 1000, path);
  const Result result = tool_test::run(arguments);
  EXPECT_EQ(result.exit_code, 0);
  std::size_t lines = 0;
  for (const char c : result.out) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, 1000u);
}

}  // namespace
