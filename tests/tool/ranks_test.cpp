// `weir ranks`: several processes of one program, their output, signals and exit codes.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tool.hpp"

namespace {

using tool_test::Result;
using tool_test::run;

Result shell(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), "ranks");
  for (const char* word : {"--", "sh", "-c"}) options.emplace_back(word);
  options.push_back(script);
  return run(options);
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST(Ranks, each_rank_finds_its_number_and_the_job) {
  const Result result =
      shell({"-n", "3"}, "echo $RANK of $WORLD_SIZE, $LOCAL_RANK of $LOCAL_WORLD_SIZE at $MASTER_ADDR; echo e >&2");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const std::vector<std::string> out = {"[0] 0 of 3, 0 of 3 at 127.0.0.1", "[1] 1 of 3, 1 of 3 at 127.0.0.1",
                                        "[2] 2 of 3, 2 of 3 at 127.0.0.1"};
  EXPECT_EQ(lines_of(result.out), out);
  EXPECT_EQ(lines_of(result.err), (std::vector<std::string>{"[0] e", "[1] e", "[2] e"}));
}

TEST(Ranks, all_have_one_secret_and_one_port_that_no_other_job_has) {
  const char* script = "echo $WEIR_JOB_SECRET $WEIR_JOB_PORT $MASTER_PORT";
  const std::vector<std::string> first = lines_of(shell({"--raw"}, script).out);
  const std::vector<std::string> second = lines_of(shell({"--raw"}, script).out);
  ASSERT_EQ(first.size(), 2u);
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(first[0], first[1]);
  EXPECT_NE(first[0].substr(0, 32), second[0].substr(0, 32));
  std::istringstream words(first[0]);
  std::string secret, port, master;
  words >> secret >> port >> master;
  EXPECT_EQ(secret.size(), 32u);
  EXPECT_NE(port, master);
  EXPECT_GT(std::stoi(port), 0);
}

TEST(Ranks, output_is_passed_on_as_it_is_when_asked) {
  const Result result = shell({"-n", "1", "--raw"}, "printf 'a\\nb'");
  EXPECT_EQ(result.out, "a\nb");
}

TEST(Ranks, a_line_without_an_end_and_a_very_long_one_are_not_lost) {
  const Result result = shell({"-n", "1"}, "printf 'no end'; printf '%0100000d' 0 >&2");
  EXPECT_EQ(result.out, "[0] no end\n");
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '0'), 100000 + 2);  // in two lines
}

TEST(Ranks, the_exit_code_is_of_the_first_one_that_failed) {
  const Result result = shell({"-n", "3"}, "test $RANK = 1 && exit 7; exit 0");
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_NE(result.err.find("rank 1 ended with exit code 7"), std::string::npos) << result.err;
}

TEST(Ranks, a_rank_that_a_signal_ended_gives_128_and_its_number_and_the_others_are_told_to_end) {
  const Result result = shell({"-n", "3", "--grace", "0"}, "test $RANK = 2 && kill -KILL $$; exec sleep 1000");
  EXPECT_EQ(result.exit_code, 128 + 9);
  EXPECT_NE(result.err.find("rank 2 was ended by signal 9"), std::string::npos) << result.err;
  EXPECT_NE(result.err.find("2 more ranks go on: told to end"), std::string::npos) << result.err;
}

TEST(Ranks, who_does_not_end_when_told_is_killed) {
  // Rank 1 fails once rank 0 no longer hears it.
  const Result result =
      shell({"-n", "2", "--grace", "0"},
            "f=/tmp/weir-ranks-$WEIR_JOB_PORT; if test $RANK = 1; then while ! test -e $f; do sleep 0.01; done;"
            "rm $f; exit 3; fi; trap '' TERM; touch $f; while true; do sleep 0.1; done");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("1 more rank goes on: killed"), std::string::npos) << result.err;
}

TEST(Ranks, the_others_have_their_time_to_end) {
  // Rank 0 ends by itself once rank 1 is gone, and says so: nobody told it to.
  const Result result =
      shell({"-n", "2"}, "if test $RANK = 1; then exit 3; fi; trap 'echo told' TERM; sleep 0.5; echo by itself");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "[0] by itself\n");
}

TEST(Ranks, a_signal_to_the_tool_reaches_all_of_them) {
  // Each rank says that it listens; the last one of them to say so sends the tool, which is its parent, the signal.
  const Result result =
      shell({"-n", "2", "--raw"},
            "d=/tmp/weir-ranks-$WEIR_JOB_PORT; mkdir -p $d; trap 'echo got it; rm -rf $d; exit 0' USR1; touch $d/$RANK;"
            "if test $RANK = 0; then while ! test -e $d/1; do sleep 0.01; done; kill -USR1 $PPID; fi;"
            "while true; do sleep 0.01; done");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "got it\ngot it\n");
}

TEST(Ranks, heat_over_four_processes_is_bit_for_bit_that_of_one_device) {
  const Result result = run({"ranks", "-n", "4", "--raw", "--", tool_test::tool_path(), "demo", "heat", "--size", "130",
                             "--steps", "20", "--repeat", "1"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_NE(result.out.find("on 4 ranks: processes, by sockets"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("bit for bit equal"), std::string::npos) << result.out;
  EXPECT_EQ(result.out.find("heat: "), result.out.rfind("heat: ")) << result.out;  // one of them prints
}

TEST(Ranks, mistakes_are_named) {
  const auto says = [](const std::vector<std::string>& words, const char* what) {
    const Result result = run(words);
    EXPECT_EQ(result.exit_code, 2) << what;
    EXPECT_NE(result.err.find(what), std::string::npos) << result.err;
  };
  says({"ranks", "-n", "2"}, "-- PROGRAM is required");
  says({"ranks", "-n", "0", "--", "true"}, "-n");
  says({"ranks", "-n", "2", "--json", "--", "true"}, "--json has no place here");
  says({"ranks", "--", "/nothing/there"}, "cannot start '/nothing/there'");
}
