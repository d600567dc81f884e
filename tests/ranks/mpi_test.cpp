// MPI itself, which Weir initialises and finalises if nobody else has. Each scene is run by two ranks that mpirun starts.
#ifdef WEIR_TEST_MPI_LAUNCHER
#include <weir/mpi.hpp>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <sys/wait.h>
#include <unistd.h>

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
pid_t scene_of = 0;  ///< the process
void say_whether_it_is_over() {
  if (scene_of != getpid()) std::_Exit(0);  // a child: objects of the test have threads that it has not
  int over = 0;
  MPI_Finalized(&over);
  std::printf("MPI is %s\n", over != 0 ? "over" : "there");
  std::fflush(stdout);
}

class MpiScene : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("WEIR_TEST_MPI_SCENE") == nullptr) GTEST_SKIP() << "Mpi.* starts it";
    scene_of = getpid();
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
TEST(Mpi, is_no_concern_of_a_forked_child_that_ends) {
  const std::string out = run("forked");
  EXPECT_EQ(count_of("the child has ended well", out), 2u) << out;
  EXPECT_EQ(count_of("MPI is over", out), 2u) << out;
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
TEST_F(MpiScene, forked) {
  std::atexit(say_whether_it_is_over);
  const weir::Communicator comm = weir::mpi::communicator(ranks_test::device(), MPI_COMM_WORLD);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    std::exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  if (status == 0) std::printf("the child has ended well\n");
  std::fflush(stdout);
  const weir::Stream s(ranks_test::device());
  weir::barrier(s, comm);
  s.synchronize();
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
