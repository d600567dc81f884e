// `weir trace`, `--trace` of demos, and WEIR_TRACE: a program becomes a timeline, its numbers, and its reasons.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weir/trace.hpp>

#include "support/sanitizers.hpp"
#include "tool.hpp"

namespace {

using nlohmann::json;
using tool_test::Result;
using tool_test::run;
using tool_test::text;
using tool_test::tool_path;

class Trace : public testing::Test {
 protected:
  Trace() : path_(std::filesystem::temp_directory_path() / ("traced" + std::to_string(getpid()) + ".json")) {}
  ~Trace() override { std::filesystem::remove(path_); }

  void record() {
    const std::vector<std::string> arguments = {"trace", "-o",       path_, "--",   tool_path(),
                                                "demo",  "prefetch", "--n", "1000", "--json"};
    const Result result = run(arguments);
    ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
    EXPECT_EQ(json::parse(result.out)["batches"], 16) << "the program's output is its own";
  }
  static json printed(const std::vector<std::string>& arguments) {
    const Result result = run(arguments);
    EXPECT_EQ(result.exit_code, 0) << text(arguments, result);
    return json::parse(result.out);
  }

  std::string path_;
};

TEST_F(Trace, of_a_program_has_numbers_and_reasons) {
  record();
  const json events = json::parse(std::ifstream(path_))["traceEvents"];
  std::size_t commands = 0;
  for (const json& one : events) commands += one.value("cat", "") == "command" ? 1 : 0;
  const json summary = printed({"trace", "summary", path_, "--json"});
  EXPECT_EQ(summary["format"], "weir.trace.summary");
  EXPECT_EQ(summary["commands"], commands);
  EXPECT_GT(summary["critical_path"].size(), 0u);
  const json reasons = printed({"trace", "explain", path_, "--json"});
  EXPECT_EQ(reasons["format"], "weir.trace.reasons");
  EXPECT_NE(run({"trace", "summary", path_}).out.find("makespan"), std::string::npos);
  EXPECT_FALSE(run({"trace", "explain", path_}).out.empty());
}

TEST_F(Trace, compares_two_runs_and_fails_where_it_is_asked_to) {
  record();
  EXPECT_EQ(run({"trace", "diff", path_, path_, "--fail-if", "makespan > 1.05x"}).exit_code, 0);
  const Result failed = run({"trace", "diff", path_, path_, "--fail-if", "makespan >= 1x"});
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_NE(failed.out.find("Failed: makespan >= 1x"), std::string::npos) << failed.out;
  EXPECT_EQ(printed({"trace", "diff", path_, path_, "--json"})["format"], "weir.trace.diff");
  const Result wrong = run({"trace", "diff", path_, path_, "--fail-if", "speed > 1x"});
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_EQ(wrong.err.find("trace.cpp"), std::string::npos) << "where the tool stands in its source: " << wrong.err;
}

TEST_F(Trace, of_a_demo) {
  const Result result = run({"demo", "default-stream", "--device", "cpu", "--trace", path_});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("timeline: " + path_), std::string::npos) << result.out;
  EXPECT_GT(printed({"trace", "summary", path_, "--json"})["commands"], 0);
  EXPECT_EQ(run({"demo", "default-stream", "--trace", "/nowhere/x.json"}).exit_code, 2);
}

// By the virtual clock: not by the host's, which computes for the device.
TEST_F(Trace, explains_what_holds_demos_on_a_simulated_device) {
  for (const auto& [demo, dearest] : {std::pair("prefetch", "event"), std::pair("normalize", "engine busy")}) {
    ASSERT_EQ(run({"demo", demo, "--repeat", "1", "--device", "sim:h200", "--trace", path_}).exit_code, 0) << demo;
    const json reasons = printed({"trace", "explain", path_, "--json"})["reasons"];
    ASSERT_FALSE(reasons.empty()) << demo;
    EXPECT_EQ(reasons[0]["reason"], dearest) << demo;
    for (const json& one : reasons) {
      EXPECT_NE(one["reason"], "unknown") << demo;
      EXPECT_GT(one["line"], 0) << demo;
    }
  }
}

/// What held each command, by its place: without lines, and with a name of its own, none is one with another.
std::map<std::string, weir::trace::Reason> reasons_of(weir::trace::Timeline timeline) {
  for (std::uint32_t i = 0; i < timeline.commands.size(); ++i) {
    weir::trace::Command& one = timeline.commands[i];
    one.file = weir::trace::none;
    if (one.lane == weir::trace::Lane::order) continue;
    one.name = static_cast<std::uint32_t>(timeline.texts.size());
    timeline.texts.push_back(std::to_string(i));
  }
  for (weir::trace::HostWait& wait : timeline.waits) wait.file = weir::trace::none;
  std::map<std::string, weir::trace::Reason> made;
  for (const weir::trace::Held& held : explain(timeline)) {
    made.emplace(timeline.name_of(timeline.commands[held.command]), held.reason);
  }
  return made;
}

TEST_F(Trace, explains_each_of_the_ten_longest_idle_times_of_every_demo) {
  // What a sanitizer looks at is the same in each element.
  std::vector<std::string> few = {"--repeat", "1"};
  if (weir_test::under_address_sanitizer) few.push_back("--small");
  const std::vector<std::pair<std::string, std::vector<std::string>>> demos = {
      {"vadd", few},          {"normalize", few}, {"prefetch", few},
      {"default-stream", {}}, {"overlap", {}},    {"heat", {"--repeat", "1", "--size", "256"}}};
  for (const std::string device : {"sim:h200", "cpu"}) {
    for (const auto& [demo, more] : demos) {
      if (demo == "heat" && device != "cpu") continue;  // simulated devices have no collectives
      std::vector<std::string> arguments = {"demo", demo, "--device", device, "--trace", path_};
      arguments.insert(arguments.end(), more.begin(), more.end());
      const Result result = run(arguments);
      ASSERT_EQ(result.exit_code, 0) << text(arguments, result);
      const auto reasons = reasons_of(weir::trace::load(path_));
      const json gaps = printed({"trace", "summary", path_, "--json"})["idle_gaps"];
      EXPECT_GE(gaps.size(), 10u) << demo << " on " << device;
      for (std::size_t i = 0; i < gaps.size() && i < 10; ++i) {
        const std::int64_t idle = gaps[i]["end_ns"].get<std::int64_t>() - gaps[i]["begin_ns"].get<std::int64_t>();
        const auto reason = reasons.find(gaps[i]["before"]["command"].dump());
        EXPECT_TRUE(idle < 1000 || (reason != reasons.end() && reason->second != weir::trace::Reason::unknown))
            << demo << " on " << device << ": " << gaps[i].dump();
      }
    }
  }
}

TEST_F(Trace, of_several_processes_becomes_one) {
  record();
  const std::string other = path_ + ".other.json", all = path_ + ".all.json";
  std::filesystem::copy_file(path_, other);
  const Result result = run({"trace", "merge", path_, other, "-o", all});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::uint64_t commands = printed({"trace", "summary", path_, "--json"})["commands"];
  EXPECT_EQ(printed({"trace", "summary", all, "--json"})["commands"], 2 * commands);
  EXPECT_EQ(run({"trace", "merge", path_, other}).exit_code, 2);
  EXPECT_EQ(run({"trace", "merge", "-o", all}).exit_code, 2);
  EXPECT_EQ(run({"trace", "merge", "/nowhere/x.json", "-o", all}).exit_code, 2);
  std::filesystem::remove(other);
  std::filesystem::remove(all);
}

TEST_F(Trace, of_a_program_that_was_killed_says_so_and_has_what_was_recorded) {
  const Result result =
      run({"trace", "-o", path_, "--", "/bin/sh", "-c",
           "\"$0\" demo vadd --n 100000 --repeat 10000 --device cpu >&2 & "
           "while kill -0 $! && ! grep -qs '\"cat\": \"command\"' \"$1\"; do sleep 0.02; done; kill -9 $!; wait $!",
           tool_path(), path_});
  EXPECT_EQ(result.exit_code, 128 + 9) << result.err;
  EXPECT_NE(result.err.find("/bin/sh (exit code 137) did not end by exit(): " + path_), std::string::npos)
      << result.err;
  const json summary = printed({"trace", "summary", path_, "--json"});
  EXPECT_GT(summary["commands"], 0);
  EXPECT_NE(summary["note"].get<std::string>().find("was killed, or did not end by exit()"), std::string::npos);
}

TEST_F(Trace, of_programs_that_end_by_exit_says_nothing_and_has_no_note) {
  const std::vector<std::string> arguments = {
      "trace", "-o", path_, "--", "/bin/sh", "-c", "\"$0\" demo default-stream --device cpu; exit 5", tool_path()};
  const Result result = run(arguments);
  EXPECT_EQ(result.exit_code, 5) << text(arguments, result);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(printed({"trace", "summary", path_, "--json"})["note"], "");
}

TEST_F(Trace, of_several_processes_has_a_file_for_each) {
  const Result result =
      run({"trace", "-o", path_, "--", "/bin/sh", "-c",
           "\"$0\" demo prefetch --n 1000 --device cpu; \"$0\" demo default-stream --device cpu", tool_path()});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::string words = "weir: another process that called Weir: ";
  ASSERT_EQ(result.err.substr(0, words.size()), words);
  const std::string other = result.err.substr(words.size(), result.err.find('\n') - words.size());
  EXPECT_NE(printed({"trace", "summary", path_, "--json"})["program"].get<std::string>().find("prefetch"),
            std::string::npos);
  EXPECT_NE(printed({"trace", "summary", other, "--json"})["program"].get<std::string>().find("default-stream"),
            std::string::npos);
  std::filesystem::remove(other);
}

TEST_F(Trace, that_makes_no_sense_is_said) {
  EXPECT_EQ(run({"trace"}).exit_code, 2);
  EXPECT_EQ(run({"trace", "-o", path_}).exit_code, 2);
  EXPECT_EQ(run({"trace", "-o", path_, "--", "/bin/true"}).exit_code, 3);
  EXPECT_EQ(run({"trace", "-o", "/nowhere/x.json", "--", "/bin/true"}).exit_code, 2) << "before anything runs";
  EXPECT_EQ(run({"trace", "summary", "/nowhere/x.json"}).exit_code, 2);
  std::ofstream(path_) << "{\"traceEvents\": []}";
  const Result result = run({"trace", "explain", path_});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("no timeline of Weir's"), std::string::npos) << result.err;
}

}  // namespace
