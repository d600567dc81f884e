// `weir trace --cuda` from end to end, with a stand-in for the driver and for libcupti.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include <weir/trace.hpp>

#include "made.hpp"
#include "tool/tool.hpp"

namespace {

using tool_test::Result;
using tool_test::run;
using weir::trace::Timeline;

class CudaTrace : public testing::Test {
 protected:
  CudaTrace() : folder_(std::filesystem::temp_directory_path() / ("weir_foreign" + std::to_string(getpid()))) {
    std::filesystem::create_directory(folder_);
  }
  ~CudaTrace() override {
    std::filesystem::permissions(folder_, std::filesystem::perms::owner_all);
    std::filesystem::remove_all(folder_);
  }

  std::string file(const std::string& name = "run.json") const { return (folder_ / name).string(); }
  Result trace(const std::string& what, const std::vector<std::string>& more = {},
               const std::string& output = "run.json", const std::string& cupti = WEIR_FAKE_CUPTI,
               std::vector<std::string> environment = {}) const {
    std::vector<std::string> words = {"trace", "--cuda", "-o", file(output)};
    words.insert(words.end(), more.begin(), more.end());
    words.insert(words.end(), {"--", WEIR_FOREIGN_PROGRAM, what});
    environment.push_back("WEIR_CUPTI=" + cupti);
    return run(words, {.environment = environment});
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::filesystem::path folder_;
};

TEST_F(CudaTrace, has_kernels_with_their_calls_and_the_programs_output_is_its_own) {
  const Result result = trace("runs");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(result.out, "the program's output\n");
  EXPECT_EQ(result.err, "");
  const Timeline timeline = weir::trace::load(file());
  EXPECT_EQ(foreign_test::drawn(timeline),
            "stream 13.Saxpy 1000: 1500-2500\n"
            "stream 13.graph 0 -1: 2500-2510 <stream order- stream 13.Saxpy\n");
  EXPECT_NE(timeline.program.find("weir_foreign_program runs"), std::string::npos) << timeline.program;
  EXPECT_EQ(run({"trace", "summary", file()}).exit_code, 0);
  EXPECT_EQ(run({"trace", "explain", file()}).exit_code, 0);
  EXPECT_EQ(run({"trace", "diff", file(), file()}).exit_code, 0);
}

TEST_F(CudaTrace, says_what_cupti_took) {
  ASSERT_EQ(trace("runs").exit_code, 0);
  const std::string words = "CUPTI itself took 3 us for resources";
  const Result summary = run({"trace", "summary", file()});
  EXPECT_NE(summary.out.find(words), std::string::npos) << summary.out;
  const Result json = run({"trace", "summary", "--json", file()});
  EXPECT_NE(json.out.find(words), std::string::npos) << json.out;
}

TEST_F(CudaTrace, says_what_the_link_carries_at_best) {
  const std::vector<std::string> libraries = {"WEIR_FAKE_DRIVER=" WEIR_FAKE_DRIVER, "WEIR_FAKE_NVML=" WEIR_FAKE_NVML};
  ASSERT_EQ(trace("has_a_link", {}, "run.json", WEIR_FAKE_CUPTI, libraries).exit_code, 0);
  const Timeline timeline = weir::trace::load(file());
  ASSERT_EQ(timeline.best_rates.size(), 1u);
  EXPECT_EQ(timeline.text(timeline.best_rates[0].source), "PCIe 4.0 x8, raw");
  EXPECT_EQ(timeline.best_rates[0].copy_in, 15'753'846'153u);
  ASSERT_EQ(trace("runs").exit_code, 0);
  EXPECT_TRUE(weir::trace::load(file()).best_rates.empty()) << "without the driver's libraries nobody knows";
}

TEST_F(CudaTrace, is_a_page_or_perfettos_too) {
  EXPECT_EQ(trace("runs", {}, "run.html").exit_code, 0);
  EXPECT_EQ(foreign_test::name_of(weir::trace::load(file("run.html")), 0), "stream 13.Saxpy");
  EXPECT_EQ(trace("runs", {}, "run.pftrace").exit_code, 0);
  EXPECT_GT(std::filesystem::file_size(file("run.pftrace")), 0u);
}

TEST_F(CudaTrace, of_graphs_has_each_node_where_it_is_asked_for) {
  EXPECT_EQ(trace("runs", {"--graph-nodes"}).exit_code, 0);
  EXPECT_EQ(weir::trace::load(file()).commands.size(), 1u) << "CUPTI tells of a graph as a whole, or of its nodes";
}

TEST_F(CudaTrace, of_a_program_that_is_killed_has_what_happened_until_then) {
  const Result result = trace("is_killed");
  EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.err;
  EXPECT_EQ(weir::trace::load(file()).commands.size(), 2u);
}

TEST_F(CudaTrace, of_processes_that_it_starts_are_files_of_their_own) {
  const Result result = trace("starts_another");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(files(), 2u);
  EXPECT_NE(result.err.find("a process that it started: " + (folder_ / "run.").string()), std::string::npos)
      << result.err;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    EXPECT_EQ(weir::trace::load(entry.path()).commands.size(), 2u) << entry.path();
  }
}

TEST_F(CudaTrace, forked_processes_and_exit_codes_stay_the_programs) {
  EXPECT_EQ(trace("forks").exit_code, 0);
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(weir::trace::load(file()).commands.size(), 2u);
  EXPECT_EQ(trace("fails").exit_code, 5);
}

TEST_F(CudaTrace, begins_when_nvtx_is_used_first) {
  const Result result = trace("names");
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(weir::trace::load(file()).commands.size(), 2u);
}

TEST_F(CudaTrace, that_cannot_be_says_why) {
  Result result = trace("nothing");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("made no call of CUDA: nothing was recorded"), std::string::npos) << result.err;
  result = run({"trace", "--cuda", "-o", file(), "--", "/bin/sh", "-c", "exit 5"});
  EXPECT_EQ(result.exit_code, 5) << "the program's own";
  EXPECT_NE(result.err.find("made no call of CUDA: nothing was recorded"), std::string::npos) << result.err;
  result = trace("runs", {}, "run.json", "/nowhere/libcupti.so");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "the program's output\n") << "the program itself runs";
  EXPECT_NE(result.err.find("WEIR_CUPTI: /nowhere/libcupti.so"), std::string::npos) << result.err;
  result = trace("runs", {}, "run.json", WEIR_FAKE_CUPTI, {"FAKE_CUPTI=refuses"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("records no kernels: CUPTI_ERROR_NOT_COMPATIBLE"), std::string::npos) << result.err;
  result = trace("runs", {}, "run.json", WEIR_FAKE_CUPTI, {"WEIR_CUDA_TRACE_LIMIT=much"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_NE(result.err.find("WEIR_CUDA_TRACE_LIMIT is 'much': a number of bytes"), std::string::npos) << result.err;
  EXPECT_EQ(files(), 0u);
}

TEST_F(CudaTrace, that_cannot_be_written_does_not_start_the_program) {
  for (const char* output : {"no/such/folder.json", "."}) {
    const Result result = trace("runs", {}, output);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.out, "");
    EXPECT_NE(result.err.find("it cannot be written"), std::string::npos) << result.err;
  }
  const Result result = trace("runs", {}, "run.json", WEIR_FAKE_CUPTI, {"CUDA_INJECTION64_PATH=/some/tool.so"});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.err.find("CUDA_INJECTION64_PATH is set"), std::string::npos) << result.err;
  EXPECT_EQ(run({"trace", "--cuda", "--device", "cpu", "-o", file(), "--", WEIR_FOREIGN_PROGRAM, "runs"}).exit_code, 2);
  EXPECT_EQ(run({"trace", "--graph-nodes", "-o", file(), "--", WEIR_FOREIGN_PROGRAM, "runs"}).exit_code, 2);
}

}  // namespace
