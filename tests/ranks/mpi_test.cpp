// MPI itself, which Weir initialises and finalises if nobody else has. Each scene is run by two ranks that mpirun starts.
#ifdef WEIR_TEST_MPI_LAUNCHER
#include <weir/mpi.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "ranks/programs.hpp"
#include "ranks/world.hpp"

namespace {

std::string run(const std::string& scene) {
  return ranks_test::output_of(
      "timeout 60 env WEIR_TEST_MPI_SCENE=1 OMPI_ALLOW_RUN_AS_ROOT=1 "
      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " WEIR_TEST_MPI_LAUNCHER " -n 2 " +
      ranks_test::own_program() + " --gtest_brief=1 --gtest_filter=MpiScene." + scene);
}
std::size_t count_of(std::string_view word, const std::string& out) {
  std::size_t count = 0;
  for (std::size_t at = out.find(word); at != std::string::npos; at = out.find(word, at + 1)) ++count;
  return count;
}
void say_whether_it_is_over() {
  int over = 0;
  MPI_Finalized(&over);
  std::printf("MPI is %s\n", over != 0 ? "over" : "there");
  std::fflush(stdout);
}

class MpiScene : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("WEIR_TEST_MPI_SCENE") == nullptr) GTEST_SKIP() << "Mpi.* starts it";
  }
};

}  // namespace

TEST(Mpi, that_weir_initialised_is_finalised_by_it) {
  const std::string out = run("left_to_weir");
  EXPECT_EQ(count_of("MPI is over", out), 2u) << out;
}
TEST(Mpi, that_the_program_initialised_is_left_to_it) {
  const std::string out = run("initialised_before");
  EXPECT_EQ(count_of("MPI is there", out), 2u) << out;
}
TEST(Mpi, with_less_than_all_threads_is_refused_with_what_to_do) {
  const std::string out = run("with_less");
  EXPECT_EQ(count_of("MPI was initialised with less than MPI_THREAD_MULTIPLE: call MPI_Init_thread with it", out), 2u)
      << out;
}

TEST_F(MpiScene, left_to_weir) {
  std::atexit(say_whether_it_is_over);  // behind what is registered later
  const weir::Communicator comm = weir::mpi::communicator(ranks_test::device(), MPI_COMM_WORLD);
  EXPECT_EQ(comm.size(), 2);
}
TEST_F(MpiScene, initialised_before) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
  std::atexit([] {
    say_whether_it_is_over();
    MPI_Finalize();
  });
  const weir::Communicator comm = weir::mpi::communicator(ranks_test::device(), MPI_COMM_WORLD);
  EXPECT_EQ(comm.size(), 2);
}
TEST_F(MpiScene, with_less) {
  int level = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level);
  try {
    static_cast<void>(weir::mpi::communicator(ranks_test::device(), MPI_COMM_WORLD));
    std::printf("it was taken\n");
  } catch (const weir::Error& error) {
    std::printf("%s\n", error.errc() == weir::Errc::not_supported ? error.what() : "another error");
  }
  std::fflush(stdout);
  MPI_Finalize();
}
#endif
