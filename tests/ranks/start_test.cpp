// Ranks that torchrun starts: how they find each other.
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "ranks/programs.hpp"
#include "ranks/sockets.hpp"
#include "ranks/world.hpp"

namespace {

using ranks_test::output_of;
using ranks_test::own_program;

/// Three ranks as torchrun starts them, whose file of the job is in a folder of the test's own.
class Torchrun : public ::testing::Test {
 protected:
  Torchrun() { std::filesystem::create_directory(folder_); }
  ~Torchrun() override { std::filesystem::remove_all(folder_); }
  std::string run(const std::string& ranks, const std::string& filter, const std::string& more = {}) const {
    return output_of("for r in " + ranks +
                     "; do RANK=$r LOCAL_RANK=$r WORLD_SIZE=3 LOCAL_WORLD_SIZE=3 MASTER_ADDR=nowhere.invalid " +
                     "MASTER_PORT=29500 XDG_RUNTIME_DIR=" + folder_.string() + " " + more + " timeout " +
                     std::to_string(limit_s_) + " " + own_program() + " --gtest_brief=1 --gtest_filter=" + filter +
                     " & done; wait");
  }
  /// As a job would leave it that was killed before all had come.
  void leave_file(std::filesystem::perms mode) const {
    std::ofstream(file()) << "9 0123456789abcdef\n";
    std::filesystem::permissions(file(), mode);
  }
  /// Of the first communicator.
  std::filesystem::path file() const {
    return folder_ / ("weir-job-" + std::to_string(geteuid()) + "-127.0.0.1-29500-0");
  }
  static void expect_all_passed(const std::string& out) {
    EXPECT_EQ(count(out, "[  PASSED  ] 5 tests."), 3u) << out;
    EXPECT_EQ(count(out, "a rank failed"), 0u) << out;
  }
  /// Of which the next one is free.
  static std::string store_port() { return std::to_string(weir::detail::listen_at("127.0.0.1", 0).second - 1); }
  static std::size_t count(const std::string& out, const std::string& word) {
    std::size_t found = 0;
    for (std::size_t at = out.find(word); at != std::string::npos; at = out.find(word, at + 1)) ++found;
    return found;
  }

  int limit_s_ = 60;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("weir-torchrun-" + std::to_string(getpid()));
};

constexpr const char* some_tests = "'OnRanksOf/4.*:OnRanks.split*:OnRanks.two_communicators*'";
constexpr auto own_mode = std::filesystem::perms::owner_read | std::filesystem::perms::owner_write;

}  // namespace

TEST_F(Torchrun, ranks_meet_by_a_file_that_is_gone_when_all_have_come) {
  const std::string out = run("0 1 2", some_tests);
  expect_all_passed(out);
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "a file is left";
}
TEST_F(Torchrun, what_a_job_before_has_left_does_not_keep_ranks_apart) {
  leave_file(own_mode);
  const std::string out = run("2 1 0", some_tests);
  expect_all_passed(out);
}
TEST_F(Torchrun, a_file_that_others_may_read_is_refused) {
  leave_file(own_mode | std::filesystem::perms::others_read);
  limit_s_ = 10;  // who does not refuse waits for rank 0
  const std::string out = run("1", "OnRanks.two_communicators*");
  EXPECT_EQ(count(out, "weir::communicator: "), 1u) << out;
  EXPECT_EQ(count(out, "is open to others: its mode is to be 600"), 1u) << out;
}
TEST_F(Torchrun, a_link_in_its_place_is_refused) {
  leave_file(own_mode);
  std::filesystem::rename(file(), folder_ / "elsewhere");
  std::filesystem::create_symlink(folder_ / "elsewhere", file());
  const std::string out = run("1", "OnRanks.two_communicators*");
  EXPECT_EQ(count(out, "cannot be read"), 1u) << out;
}
TEST_F(Torchrun, a_secret_of_the_launchers_needs_no_file) {
  const std::string out = run("0 1 2", some_tests, "WEIR_JOB_SECRET=0123456789abcdef MASTER_PORT=" + store_port());
  expect_all_passed(out);
}
#ifdef WEIR_TEST_TOOL
TEST(JobPort, is_nobody_elses_while_no_rank_listens) {
  if (!ranks_test::is_rank()) {
    const std::string out =
        output_of(WEIR_TEST_TOOL " ranks -n 1 --raw -- " + own_program() + " --gtest_brief=1 --gtest_filter=JobPort.*");
    EXPECT_NE(out.find("[  PASSED  ] 1 test."), std::string::npos) << out;
    return;
  }
  const int port = std::atoi(std::getenv("WEIR_JOB_PORT"));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(static_cast<std::uint16_t>(port));
  const weir::detail::Socket other(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_NE(bind(other.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(weir::detail::listen_at("127.0.0.1", port).second, port);
}
#endif
