// `weir record`, and WEIR_RECORD without it: a program becomes a scenario file that runs, and is checked.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/sanitizers.hpp"
#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;
using tool_test::run;
using tool_test::text;
using tool_test::tool_path;

using Arguments = std::vector<std::string>;

class Record : public testing::Test {
 protected:
  Record() : path_(std::filesystem::temp_directory_path() / ("recorded" + std::to_string(getpid()) + ".json")) {}
  ~Record() override { std::filesystem::remove(path_); }

  json recorded() const { return json::parse(std::ifstream(path_)); }
  static std::size_t count(const json& scenario, const std::string& op) {
    std::size_t found = 0;
    for (const json& command : scenario["program"]) found += command["op"] == op ? 1 : 0;
    return found;
  }

  std::filesystem::path path_;
};

TEST_F(Record, makes_a_file_that_runs_again_and_has_no_hazard) {
  const Arguments arguments = {"record", "-o", path_, "--", tool_path(), "demo", "prefetch", "--n", "1000", "--json"};
  const Result result = run(arguments);
  ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_EQ(json::parse(result.out)["batches"], 16) << "the program's output is its own";
  const json scenario = recorded();
  EXPECT_GT(count(scenario, "launch"), 0u);
  EXPECT_GT(count(scenario, "copy"), 0u);
  EXPECT_EQ(count(scenario, "alloc"), count(scenario, "free"));
  const Result again = run({"run", "--json", path_});
  EXPECT_EQ(again.exit_code, 0) << again.out << again.err;
  EXPECT_EQ(json::parse(again.out)["commands"], scenario["program"].size());
  EXPECT_EQ(run({"check", path_}).exit_code, 0);
}

TEST_F(Record, needs_no_tool_but_the_environment) {
  const Result result = run({"demo", "prefetch", "--n", "1000"}, {.environment = {"WEIR_RECORD=" + path_.string()}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_GT(count(recorded(), "launch"), 0u);
}

TEST_F(Record, of_a_scenario_has_its_commands) {
  std::ofstream(path_) << R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind": "blocking"}],
      "buffers": [{"name": "x", "kind": "device", "bytes": 64}],
      "program": [{"op": "launch", "stream": "s", "name": "K", "uses": [{"buffer": "x", "access": "accumulate"}]}]})";
  const Result result = run({"record", "-o", path_, path_});
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const json scenario = recorded();
  ASSERT_EQ(count(scenario, "launch"), 1u);
  for (const json& command : scenario["program"]) {
    if (command["op"] != "launch") continue;
    EXPECT_EQ(command["name"], "K");
    EXPECT_EQ(command["uses"][0]["access"], "accumulate");
  }
}

// Programs that are right by their making: the checker must be silent.
TEST_F(Record, of_random_programs_has_no_hazard) {
  const std::string programs = std::filesystem::path(tool_path()).parent_path() / "weir_stress_tests";
  if (!std::filesystem::exists(programs)) GTEST_SKIP() << "a build without weir_stress_tests";
  // Under AddressSanitizer a third of them: the checker takes minutes for the others, in code that these have seen.
  const std::size_t share = weir_test::under_address_sanitizer ? 3 : 1, number = 99 / share;
  for (const char* kind : {"of_one_host_thread", "of_two_host_threads", "with_graphs"}) {
    const Arguments arguments = {
        "record", "-o", path_, "--", programs, "--gtest_brief=1", std::string("--gtest_filter=RandomPrograms.") + kind};
    const Result result = run(arguments, {.environment = {"WEIR_PROGRAMS=" + std::to_string(number)}});
    ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
    EXPECT_GT(count(recorded(), "launch"), 500u / share);
    // Its threads meet by means that Weir does not see.
    const Result checked = run({"check", "--host-order", "observed", path_});
    EXPECT_EQ(checked.exit_code, 0) << kind << "\n" << checked.out.substr(0, 4000) << checked.err;
  }
}

/// A launch that reads what another stream copies; with or without the wait between them.
std::string double_buffer(bool waits) {
  return std::string(R"({"format": "weir.scenario", "version": 1,
      "streams": [{"name": "upload", "kind": "non_blocking"}, {"name": "compute", "kind": "non_blocking"}],
      "events": [{"name": "filled"}], "buffers": [{"name": "x", "kind": "device", "bytes": 64}, {"name": "in", "kind": "pinned", "bytes": 64}],
      "program": [{"op": "copy", "stream": "upload", "to": "x", "from": "in", "file": "sim.cpp", "line": 7},
        {"op": "record", "stream": "upload", "event": "filled"},)") +
         (waits ? R"({"op": "wait", "stream": "compute", "event": "filled"},)" : "") +
         R"({"op": "launch", "stream": "compute", "name": "Advect", "uses": ["x"], "file": "sim.cpp", "line": 9}]})";
}

// WEIR_CHECK: the checker in the running program.
TEST_F(Record, is_not_needed_to_check_a_program_as_it_runs) {
  std::ofstream(path_) << double_buffer(false);
  const std::string findings = path_.string() + ".findings";
  const Result wrong = run({"run", path_}, {.environment = {"WEIR_CHECK=print,json=" + findings}});
  EXPECT_EQ(wrong.exit_code, 66) << wrong.out << wrong.err;
  for (const char* part : {"hazard: read_after_write", "sim.cpp:9", "sim.cpp:7", "compute.wait(", "1 error"}) {
    EXPECT_NE(wrong.err.find(part), std::string::npos) << part << wrong.err;
  }
  std::ifstream file(findings);
  const json report = json::parse(file);
  EXPECT_EQ(report["summary"]["errors"], 1);
  EXPECT_EQ(report["program_exit"], 0);
  std::filesystem::remove(findings);

  EXPECT_EQ(run({"run", path_}, {.environment = {"WEIR_CHECK=1,exit=7"}}).exit_code, 7);
  const Result quiet = run({"run", path_}, {.environment = {"WEIR_CHECK=collect,exit=0"}});
  EXPECT_EQ(quiet.exit_code, 0);
  EXPECT_EQ(quiet.err, "");
  // The command is refused, and the run reports what was.
  const Result refused = run({"run", path_}, {.environment = {"WEIR_CHECK=throw"}});
  EXPECT_NE((refused.out + refused.err).find("hazard"), std::string::npos) << refused.out << refused.err;

  std::ofstream(path_) << double_buffer(true);
  EXPECT_EQ(run({"run", path_}, {.environment = {"WEIR_CHECK=1"}}).exit_code, 0);
}

TEST_F(Record, needs_no_file_for_known_findings_and_full_disks_are_told) {
  std::ofstream(path_) << double_buffer(false);
  const std::string known = path_.string() + ".known";
  std::ofstream(known) << "read_after_write * sim.cpp:9 sim.cpp:7  # on purpose\n";
  const Result suppressed = run({"run", path_}, {.environment = {"WEIR_CHECK=suppress=" + known}});
  EXPECT_EQ(suppressed.exit_code, 0) << suppressed.err;
  EXPECT_NE(suppressed.err.find("1 suppressed"), std::string::npos) << suppressed.err;
  std::filesystem::remove(known);
  const Result full = run({"run", path_}, {.environment = {"WEIR_CHECK=collect,json=/dev/full"}});
  EXPECT_EQ(full.exit_code, 66);
  EXPECT_NE(full.err.find("'/dev/full' cannot be written"), std::string::npos) << full.err;
}

TEST_F(Record, wrong_items_of_checks_are_named) {
  std::ofstream(path_) << double_buffer(true);
  for (const std::string item :
       {"loud", "json=", "exit=x", "exit=256", "host_order=any", "suppress=/nowhere", "json=/nowhere/x"}) {
    const Result result = run({"run", path_}, {.environment = {"WEIR_CHECK=hints," + item}});
    EXPECT_NE(result.exit_code, 0) << item;
    EXPECT_NE(result.err.find("WEIR_CHECK"), std::string::npos) << item << result.err;
    EXPECT_NE(result.err.find(item.substr(item.find('/') == std::string::npos ? 0 : item.find('/'))), std::string::npos)
        << item << result.err;
  }
}

/// The words that start a program of tests/recording/programs_test.cpp; none where it was not built.
Arguments program(const std::string& name) {
  const std::string programs = std::filesystem::path(tool_path()).parent_path() / "weir_recording_tests";
  if (!std::filesystem::exists(programs)) return {};
  return {programs, "--gtest_brief=1", "--gtest_also_run_disabled_tests", "--gtest_filter=Programs.DISABLED_" + name};
}
Arguments operator+(Arguments words, const Arguments& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST_F(Record, is_not_needed_to_check_a_program_with_the_tool) {
  std::ofstream(path_) << double_buffer(false);
  const Arguments arguments = {"check", "--", tool_path(), "run", path_};
  const Result wrong = run(arguments);
  EXPECT_EQ(wrong.exit_code, 1) << text(arguments, wrong);
  for (const char* part : {"hazard: read_after_write", "sim.cpp:9", "sim.cpp:7", "compute.wait("}) {
    EXPECT_NE(wrong.out.find(part), std::string::npos) << part << text(arguments, wrong);
  }
  std::ofstream(path_) << double_buffer(true);
  const Result right = run(arguments);
  EXPECT_EQ(right.exit_code, 0) << text(arguments, right);
}

TEST_F(Record, is_not_what_the_findings_of_a_program_speak_of) {
  std::ofstream(path_) << double_buffer(false);
  const std::string known = path_.string() + ".known";
  const Arguments program_of_file = {"--", tool_path(), "run", path_};
  const Arguments arguments = Arguments{"check", "--json"} + program_of_file;
  const std::string out = run(arguments).out;
  const json report = json::parse(out.substr(out.rfind("{\"format\"")));
  const json& finding = report["findings"].at(0);
  EXPECT_EQ(finding["key"].get<std::string>().rfind("read_after_write:sim.cpp:9:sim.cpp:7:", 0), 0u) << finding;
  EXPECT_EQ(finding["second"]["command"].get<std::string>().find_first_not_of("0123456789"), std::string::npos);
  EXPECT_EQ(finding["mend"]["insert"], json::array());
  EXPECT_FALSE(finding["mend"]["code"].empty());

  // Its options are the checker's.
  EXPECT_EQ(run(Arguments{"check", "--host-order", "declared", "--hints"} + program_of_file).exit_code, 1);
  std::ofstream(known) << "read_after_write * sim.cpp:9 sim.cpp:7  # on purpose\nleak * - -  # none\n";
  const Result suppressed = run(Arguments{"check", "--suppress", known} + program_of_file);
  EXPECT_EQ(suppressed.exit_code, 0) << suppressed.out << suppressed.err;
  EXPECT_NE(suppressed.out.find("1 suppressed"), std::string::npos) << suppressed.out;
  EXPECT_NE(suppressed.out.find("matched nothing: leak * - -"), std::string::npos) << suppressed.out;
  std::ofstream(known) << "leak * - -\n";
  const Result unread = run(Arguments{"check", "--suppress", known} + program_of_file);
  EXPECT_EQ(unread.exit_code, 2) << unread.out;
  EXPECT_NE(unread.err.find("a reason"), std::string::npos) << unread.err;
  std::filesystem::remove(known);
}

TEST_F(Record, of_a_program_that_fails_is_checked_and_says_its_exit_code) {
  std::ofstream(path_) << double_buffer(true);
  const std::string script = "\"" + tool_path() + "\" run --json \"" + path_.string() + "\" >/dev/null; exit 5";
  const Arguments arguments = {"check", "--json", "--", "sh", "-c", script};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 3) << text(arguments, result);
  const json report = json::parse(result.out);
  EXPECT_EQ(report["program_exit"], 5);
  EXPECT_EQ(report["program"], "sh");
  EXPECT_EQ(report["host_order"], "observed");
  EXPECT_EQ(report["findings"], json::array());
}

TEST_F(Record, leaves_nothing_to_check_of_a_program_without_weir) {
  const Result result = run({"check", "--", "true"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("nothing was checked"), std::string::npos) << result.err;
}

json findings_of(const Arguments& words) {
  const Result result = run(Arguments{"check", "--json", "--"} + words);
  return json::parse(result.out.substr(result.out.rfind("{\"format\"")))["findings"];
}

TEST_F(Record, is_not_needed_to_know_what_a_programs_calls_mean) {
  const Arguments gathers = program("that_gather_in_place"), exports = program("that_export_an_array");
  if (gathers.empty()) GTEST_SKIP() << "a build without weir_recording_tests";
  EXPECT_EQ(findings_of(gathers), json::array()) << "arguments may overlap there";
  const json others = findings_of(exports);
  ASSERT_EQ(others.size(), 1u) << others.dump();
  EXPECT_EQ(others[0]["severity"], "warning");
  EXPECT_NE(others[0]["why"].get<std::string>().find("it was exported by DLPack at"), std::string::npos) << others;
}

TEST_F(Record, leaves_the_file_as_it_was_where_the_program_does_not_end_by_exit) {
  const Arguments aborts = program("that_abort");
  if (aborts.empty()) GTEST_SKIP() << "a build without weir_recording_tests";
  std::ofstream(path_) << "kept";
  const Result result = run(Arguments{"record", "-o", path_, "--"} + aborts);
  EXPECT_EQ(result.exit_code, 134);
  EXPECT_NE(result.err.find("nothing was recorded"), std::string::npos) << result.err;
  std::string kept;
  std::ifstream(path_) >> kept;
  EXPECT_EQ(kept, "kept");
  for (const Arguments& start : {Arguments{"check", "--"}, Arguments{"predict", "--"}}) {
    const Result told = run(start + aborts);
    EXPECT_EQ(told.exit_code, 3) << text(start, told);
    EXPECT_NE(told.err.find("did not end by exit() (its exit code is 134): nothing was " + start[0]), std::string::npos)
        << text(start, told);
    EXPECT_EQ(told.out, "") << text(start, told);
  }
}

TEST_F(Record, of_a_program_that_exits_in_a_host_function_has_what_came_before) {
  const Arguments exits = program("that_exit_in_a_host_function");
  if (exits.empty()) GTEST_SKIP() << "a build without weir_recording_tests";
  const Result result = run(Arguments{"record", "-o", path_, "--"} + exits);
  EXPECT_EQ(result.exit_code, 9) << result.err;
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(count(recorded(), "launch"), 1u);
  const Result checked = run(Arguments{"run", "--"} + exits, {.environment = {"WEIR_CHECK=1"}});
  EXPECT_EQ(checked.exit_code, 9);
  EXPECT_NE(checked.err.find("inside a host function or kernel: 0 errors so far"), std::string::npos) << checked.err;
}

TEST_F(Record, of_a_program_that_guards_nothing_has_no_hazard) {
  const Arguments guards = program("that_guard_nothing");
  if (guards.empty()) GTEST_SKIP() << "a build without weir_recording_tests";
  const Result result = run(Arguments{"record", "-o", path_, "--"} + guards);
  ASSERT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(count(recorded(), "host_open"), 0u);
  const Result checked = run({"check", path_});
  EXPECT_EQ(checked.exit_code, 0) << checked.out << checked.err;
}

// Each generation is the recording of the run of the one before.
TEST_F(Record, of_a_recording_has_its_hazard_once) {
  const Arguments races = program("that_write_too_early");
  if (races.empty()) GTEST_SKIP() << "a build without weir_recording_tests";
  ASSERT_EQ(run(Arguments{"record", "-o", path_, "--"} + races).exit_code, 0);
  for (int generation = 0; generation < 3; ++generation) {
    const Result checked = run({"check", "--json", path_});
    EXPECT_EQ(checked.exit_code, 1) << generation << checked.out;
    EXPECT_EQ(json::parse(checked.out)["summary"]["errors"], 1) << checked.out;
    EXPECT_NE(checked.out.find("frame"), std::string::npos) << checked.out;
    ASSERT_EQ(run({"record", "-o", path_, path_}).exit_code, 0);
  }
}

TEST_F(Record, passes_the_exit_code_on) {
  EXPECT_EQ(run({"record", "-o", path_, "--", "sh", "-c", "exit 9"}).exit_code, 9);
}

TEST_F(Record, says_when_there_was_nothing_to_record) {
  const Result result = run({"record", "-o", path_, "--", "true"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("nothing was recorded"), std::string::npos) << result.err;
}

TEST_F(Record, refuses_a_file_that_cannot_be_written_before_the_program_does_anything) {
  const Result result =
      run({"demo", "prefetch", "--n", "1000"}, {.environment = {"WEIR_RECORD=/no/such/folder/x.json"}});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("WEIR_RECORD"), std::string::npos) << result.err;
}

TEST_F(Record, goes_with_the_other_tools_at_once) {
  const std::string timeline = path_.string() + ".timeline.json", findings = path_.string() + ".findings.json";
  const Result result = run({"demo", "prefetch", "--n", "1000"},
                            {.environment = {"WEIR_RECORD=" + path_.string(), "WEIR_TRACE=" + timeline,
                                             "WEIR_CHECK=collect,json=" + findings}});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const json scenario = recorded();
  EXPECT_GT(count(scenario, "launch"), 0u);
  const std::string traced = run({"trace", "summary", timeline}).out;
  EXPECT_NE(traced, "");
  const json checked = json::parse(std::ifstream(findings));
  EXPECT_TRUE(checked["findings"].empty());
  EXPECT_EQ(checked["summary"]["commands"], scenario["program"].size()) << "each tool is told all of it";
  std::filesystem::remove(timeline);
  std::filesystem::remove(findings);
}

// To look whether it can be written must not open it: the reader would have seen an end.
TEST_F(Record, and_all_else_that_a_program_writes_goes_into_a_pipe) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  for (const char* const asked : {"WEIR_RECORD=", "WEIR_TRACE=", "WEIR_CHECK=collect,json="}) {
    std::string read;
    std::thread reader([&] {
      std::ifstream pipe(path_);
      read.assign(std::istreambuf_iterator<char>(pipe), {});
    });
    const Result result = run({"demo", "prefetch", "--n", "1000"}, {.environment = {asked + path_.string()}});
    // Lets the reader go if the program did not: an end that stays open would keep one that has not read it all.
    close(open(path_.c_str(), O_WRONLY | O_NONBLOCK));
    reader.join();
    EXPECT_EQ(result.exit_code, 0) << asked << result.err;
    EXPECT_GT(read.size(), 100u) << asked;
    EXPECT_TRUE(json::accept(read)) << asked << read;
  }
}

TEST_F(Record, refuses_command_lines_that_make_no_sense) {
  const std::vector<Arguments> all = {
      {"record", "--", "true"}, {"record", "-o", path_}, {"record", "-o", path_, "a.json", "--", "true"}};
  for (const Arguments& arguments : all) {
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << text(arguments, result);
  }
}

}  // namespace
