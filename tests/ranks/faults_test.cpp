// Faults among processes: each survivor has the right error, whose text says who and where.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/programs.hpp"

namespace {

using ranks_test::output_of;
using ranks_test::own_program;

/// Ranks that the launcher starts run the scene; what they print.
std::string run_by(const std::string& launcher, const std::string& scene) {
  const auto gates = std::filesystem::temp_directory_path() / ("weir-ranks-" + std::to_string(getpid()) + "-" + scene);
  std::filesystem::remove_all(gates);
  std::filesystem::create_directory(gates);
  const std::string out =
      output_of("export WEIR_TEST_GATES=" + gates.string() + "; timeout 60 " + launcher + " " + own_program() +
                " --gtest_brief=1 --gtest_filter=Scene." + scene + "; test $? -ne 124 && echo the job has ended");
  std::filesystem::remove_all(gates);
  return out;
}
std::string run(const std::string& scene, const std::string& before = {}) {
  return run_by("env " + before + " " WEIR_TEST_TOOL " ranks -n 3 --grace 30 --raw --", scene);
}

void expect(const std::string& out, const std::vector<int>& survivors, const std::string& code,
            const std::vector<std::string>& words) {
  for (const int rank : survivors) {
    EXPECT_NE(out.find("rank " + std::to_string(rank) + " saw " + code), std::string::npos)
        << code << " of rank " << rank << " in\n"
        << out;
  }
  for (const std::string& word : words) EXPECT_NE(out.find(word), std::string::npos) << word << " in\n" << out;
  EXPECT_NE(out.find("the job has ended"), std::string::npos) << out;
  for (const char* wrong : {"saw nothing", "went on", "may call again"}) {
    EXPECT_EQ(out.find(wrong), std::string::npos) << out;
  }
}

const std::vector<int> others = {0, 2}, all = {0, 1, 2};

}  // namespace

TEST(Faults, a_killed_rank) {
  expect(run("killed"), others, "rank_failed", {"rank 1 (", "is gone: its connection", "scenes_test.cpp:"});
}
TEST(Faults, a_rank_that_is_killed_amid_large_ones) {
  expect(run("killed_amid_large_ones"), others, "rank_failed", {"rank 1 (", "is gone: its connection"});
}
TEST(Faults, a_killed_first_rank_that_would_decide) {
  expect(run("killed_first_rank"), {1, 2}, "rank_failed",
         {"rank 0 is gone", "): has failed\n  rank 1 (", "): was not asked", "scenes_test.cpp:"});
}
TEST(Faults, a_process_that_ended_without_a_word) { expect(run("ended"), others, "rank_failed", {"rank 1 ("}); }
TEST(Faults, a_stopped_process_is_missed_when_it_is_silent) {
  expect(run("stopped", "WEIR_RANK_SILENCE=2"), others, "rank_failed", {"nothing was heard of it for 2 s"});
}
TEST(Faults, a_late_rank) {
  expect(run("late"), all, "collective_timeout",
         {"nobody came within 1 s of those who are missing: rank 1 (it did not call)", "): barrier ["});
}
TEST(Faults, a_rank_whose_stream_is_held) {
  expect(run("stream_held"), all, "collective_timeout", {"rank 1 (its stream did not come to it)"});
}
TEST(Faults, different_counts) {
  expect(run("count"), all, "collective_mismatch", {"all_reduce of 7 x float", "all_reduce of 8 x float"});
  expect(run("large_count"), all, "collective_mismatch",
         {"all_reduce of 99999 x float", "all_reduce of 100000 x float"});
}
TEST(Faults, different_types) { expect(run("type"), all, "collective_mismatch", {"8 x int", "8 x float"}); }
TEST(Faults, different_operations) { expect(run("operation"), all, "collective_mismatch", {"Plus", "Maximum"}); }
TEST(Faults, different_roots) { expect(run("root", "WEIR_CHECK=1"), all, "collective_mismatch", {"root 0", "root 1"}); }
TEST(Faults, different_kinds) {
  expect(run("kind"), all, "collective_mismatch", {"broadcast of 8", "all_reduce of 8"});
}
TEST(Faults, two_communicators_in_opposite_order) {
  const std::string out = run("opposite_order");
  // Who hears first of the other communicator's end has that for a reason.
  for (const char* rank : {"rank 0 saw ", "rank 1 saw ", "rank 2 saw "}) {
    EXPECT_NE(out.find(rank), std::string::npos) << out;
  }
  EXPECT_NE(out.find("saw collective_timeout"), std::string::npos) << out;
  EXPECT_NE(out.find("its stream did not come to it"), std::string::npos) << out;
  EXPECT_EQ(out.find("saw nothing"), std::string::npos) << out;
}
TEST(Faults, a_stream_that_failed_before) {
  expect(run("stream_failed"), others, "rank_failed", {"failed before it came to this", "the disk is full"});
}
TEST(Faults, an_abort) { expect(run("aborted"), others, "rank_failed", {"rank 1 aborted it"}); }
TEST(Faults, a_communicator_that_was_destroyed_early) {
  expect(run("left"), others, "rank_failed", {"the communicator of rank 1 was destroyed before it called this"});
}
TEST(Faults, a_receive_from_a_rank_that_left_without_its_send) {
  expect(run("left_beside_a_split"), {0}, "rank_failed",
         {"the communicator of rank 1 was destroyed before it called this"});
}
TEST(Faults, a_call_is_compared_before_it_moves_data_if_the_checker_is_asked_for) {
  expect(run("compared", "WEIR_CHECK=1"), all, "collective_mismatch",
         {"broadcast of 4 x float", "broadcast of 8 x float"});
}
TEST(Faults, a_stream_that_failed_has_the_lines_of_all_ranks) {
  expect(run("stream_failed_here"), others, "rank_failed", {"the disk is full", "rank 1 knows of 3 ranks"});
}
TEST(Faults, an_abort_of_a_rank_that_leaves_then) {
  const std::string out = run("aborted_and_left");
  expect(out, others, "rank_failed", {"rank 1 aborted it"});
  EXPECT_EQ(out.find("was destroyed"), std::string::npos) << out;
}
TEST(Faults, a_split_that_a_rank_never_calls) {
  expect(run("left_before_a_split"), others, "rank_failed",
         {"the communicator of rank 1 was destroyed before it called split()", "): barrier ["});
}
TEST(Faults, different_roots_of_an_earlier_call) {
  expect(run("earlier_roots"), all, "collective_mismatch",
         {"rank 0 calls broadcast of 8 x float, root 0 [", "rank 1 broadcast of 8 x float, root 1 [",
          "; before that, broadcast"});
}
TEST(Faults, different_counts_in_a_group) {
  expect(run("grouped_count"), all, "collective_mismatch", {"all_reduce of 7 x float", "all_reduce of 8 x float"});
}
TEST(Faults, different_counts_of_a_send_and_its_receive) {
  expect(run("sent_count"), all, "collective_mismatch",
         {"rank 1 calls receive of 7 x float, from 0 [", "rank 0 sent 32 bytes for it, where 28 are due",
          "that call is send of 8 x float, to 1 ["});
}
TEST(Faults, different_counts_of_an_exchange) {
  expect(run("exchanged_counts"), all, "collective_mismatch",
         {"rank 1 calls all_to_all of 12 x float [", "rank 0 sent 16 bytes for it, where 12 are due"});
}
TEST(Faults, different_counts_in_captured_calls) {
  expect(run("captured_count"), all, "collective_mismatch",
         {"all_reduce of 8 x float, Plus [", "all_reduce of 7 x float, Plus [", "scenes_test.cpp:"});
}
TEST(Faults, a_rank_that_is_killed_between_launches) {
  expect(run("captured_and_killed"), others, "rank_failed", {"rank 1 (", "is gone: its connection"});
}
TEST(Faults, nothing_runs_of_a_launch_that_cannot_be_whole) {
  expect(run("captured_and_aborted"), all, "rank_failed", {"weir::Graph::launch: communicator 'grads', rank 0 of 3"});
}
TEST(Faults, a_stream_that_fails_in_a_graph_before_its_call) {
  expect(run("captured_in_a_stream_that_failed"), others, "rank_failed",
         {"failed before it came to this", "the disk is full"});
}
TEST(Faults, a_killed_rank_whose_child_lives) {
  expect(run("killed_beside_its_child"), others, "rank_failed", {"rank 1 (", "is gone: its connection"});
}
#ifdef WEIR_TEST_MPI_LAUNCHER
TEST(FaultsOfMpi, a_process_that_ends_while_its_communicator_lives) {
  expect(
      run_by("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " WEIR_TEST_MPI_LAUNCHER " -n 3", "exits"),
      others, "rank_failed", {"the communicator of rank 1 was destroyed before it called this"});
}
TEST(FaultsOfMpi, ranks_do_not_go_on_without_those_that_failed) {
  const std::string out =
      run_by("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " WEIR_TEST_MPI_LAUNCHER " -n 3",
             "aborted_for_good");
  expect(out, others, "rank_failed",
         {"rank 0 stays for good: ", "rank 2 stays for good: ", "ranks that send by MPI ("});
}
TEST(FaultsOfMpi, a_process_that_destroys_its_communicator_and_ends) {
  expect(
      run_by("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " WEIR_TEST_MPI_LAUNCHER " -n 3", "left"),
      others, "rank_failed", {"the communicator of rank 1 was destroyed before it called this"});
}
#endif
