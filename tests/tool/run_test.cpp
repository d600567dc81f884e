// `weir run`: of scenario files, and of programs, whose signals and exit codes are passed on.
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;
using tool_test::run;
using tool_test::text;

using Arguments = std::vector<std::string>;

/// A scenario file, gone with the object.
class ScenarioFile {
 public:
  explicit ScenarioFile(const std::string& program, const std::string& name = "scenario")
      : path_(std::filesystem::temp_directory_path() / (name + std::to_string(getpid()) + ".json")) {
    std::ofstream(path_) << R"({"format": "weir.scenario", "version": 1, "streams": [{"name": "s", "kind": "blocking"}],
                               "buffers": [{"name": "x", "kind": "device", "bytes": 64}], "program": [)"
                         << program << "]}";
  }
  ~ScenarioFile() { std::filesystem::remove(path_); }
  ScenarioFile(const ScenarioFile&) = delete;
  ScenarioFile& operator=(const ScenarioFile&) = delete;
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

constexpr const char* launch = R"({"id": "c0", "op": "launch", "stream": "s", "uses": ["x"]})";

Result shell(const std::string& script) { return run({"run", "--", "sh", "-c", script}); }

TEST(Run, of_files_prints_a_line_of_json_for_each) {
  const ScenarioFile first(launch, "first"), second(launch, "second");
  const Arguments arguments = {"run", "--json", "--times", first.path(), second.path()};
  const Result result = run(arguments);
  ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
  std::istringstream lines(result.out);
  for (const std::string& file : {first.path(), second.path()}) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const json one = json::parse(line);
    EXPECT_EQ(one["program"], file);
    EXPECT_EQ(one["commands"], 1);
    EXPECT_EQ(one["misuse"], json::array());
    EXPECT_EQ(one["times"].size(), 1u);
  }
}

TEST(Run, on_a_simulated_device_has_its_times_for_calls_and_work_alike) {
  const ScenarioFile file(R"({"id": "k", "op": "launch", "stream": "s", "cost": {"ns": 50000}},
                             {"op": "synchronize", "stream": "s"})",
                          "virtual");
  const Arguments arguments = {"run", "--device", "sim:h200", "--json", "--times", file.path()};
  const Result result = run(arguments);
  ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
  EXPECT_EQ(result.out, run(arguments).out);
  const json times = json::parse(result.out)["times"];
  EXPECT_EQ(times[0]["call_begin_ns"], 0);
  EXPECT_NEAR(times[0]["call_end_ns"].get<double>(), 3158, 1);
  EXPECT_NEAR(times[0]["run_begin_ns"].get<double>(), 6290, 1);
  EXPECT_NEAR(times[0]["run_end_ns"].get<double>(), 56290, 2);
  EXPECT_GT(times[1]["call_end_ns"], times[0]["run_end_ns"]);
}

TEST(Run, says_what_was_refused_and_exits_with_1) {
  const ScenarioFile file(std::string(R"({"id": "bad", "op": "end_capture", "stream": "s", "graph": "g"},)") + launch);
  const Result result = run({"run", file.path()});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_NE(result.out.find("misuse: bad: "), std::string::npos) << result.out;
}

TEST(Run, names_the_member_that_is_wrong_and_runs_nothing) {
  const ScenarioFile good(launch, "good"), bad(R"({"op": "launch", "stream": "nobody"})", "bad");
  const Result result = run({"run", good.path(), bad.path()});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find("program[0].stream"), std::string::npos) << result.err;
}

TEST(Run, passes_the_exit_code_of_a_program_on) {
  EXPECT_EQ(shell("exit 7").exit_code, 7);
  EXPECT_EQ(shell("kill -9 $$").exit_code, 128 + 9);
}

TEST(Run, passes_signals_on_to_the_program) {
  const Result result = shell("trap 'echo told; exit 9' TERM; kill -TERM $PPID; while true; do sleep 0.02; done");
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_EQ(result.out, "told\n");
}

TEST(Run, gives_the_program_its_arguments_and_the_device) {
  const Arguments arguments = {"run", "--device", "cpu:0", "--", "sh", "-c", "echo $WEIR_DEVICE $0 $1", "--json", "--"};
  const Result result = run(arguments);
  EXPECT_EQ(result.out, "cpu:0 --json --\n") << text(arguments, result);
}

TEST(Run, refuses_what_makes_no_sense_with_a_program) {
  const std::vector<Arguments> all = {{"run"},
                                      {"run", "--"},
                                      {"run", "--", "/no/such/program"},
                                      {"run", "--times", "--", "true"},
                                      {"run", "file.json", "--", "true"},
                                      {"devices", "--", "true"}};
  for (const Arguments& arguments : all) {
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 2) << text(arguments, result);
    EXPECT_EQ(result.out, "") << text(arguments, result);
  }
  EXPECT_NE(run({"run", "--", "/no/such/program"}).err.find("'/no/such/program'"), std::string::npos);
}

}  // namespace
