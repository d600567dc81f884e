#include "killed.hpp"

#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/collectives.hpp>
#include <weir/weir.hpp>

extern char** environ;

namespace mpi_bench {

namespace {

constexpr const char* pipe_variable = "WEIR_BENCH_KILLED";

struct Moment {
  std::int64_t rank;
  std::int64_t nanoseconds;  ///< on the steady clock, which is the machine's
};

void tell(int pipe, std::int64_t rank) {
  const Moment now{rank, std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1)};
  if (write(pipe, &now, sizeof now) != sizeof now) std::_Exit(1);
}

pid_t start(int rank, int pipe, const std::string& file) {
  std::vector<std::string> variables = {"RANK=" + std::to_string(rank),
                                        "WORLD_SIZE=2",
                                        "LOCAL_WORLD_SIZE=2",
                                        "MASTER_ADDR=127.0.0.1",
                                        "MASTER_PORT=1",
                                        "WEIR_JOB_FILE=" + file,
                                        pipe_variable + ("=" + std::to_string(pipe))};
  std::vector<char*> environment;
  for (std::string& one : variables) environment.push_back(one.data());
  for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
  environment.push_back(nullptr);
  std::string program = "mpi_bench";
  std::array<char*, 2> arguments = {program.data(), nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, arguments.data(), environment.data()) != 0) {
    throw std::runtime_error("a rank cannot be started");
  }
  return child;
}

}  // namespace

void take_part_if_started() {
  const char* const pipe_text = std::getenv(pipe_variable);
  if (pipe_text == nullptr) return;
  const int pipe = std::atoi(pipe_text);
  const weir::Communicator comm = weir::communicator(weir::device("cpu"), {.name = "killed"});
  const weir::Stream s(comm.device());
  const auto x = weir::zeros<float>(s, 2);
  weir::all_reduce(s, comm, weir::inout(x));
  s.synchronize();
  if (comm.rank() == 1) {
    tell(pipe, 1);
    raise(SIGKILL);
  }
  try {
    weir::all_reduce(s, comm, weir::inout(x));
    s.synchronize();
  } catch (const weir::Error& error) {
    if (error.errc() == weir::Errc::rank_failed) tell(pipe, 0);
  }
  std::_Exit(0);
}

double killed_peer() {
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) throw std::runtime_error("there is no pipe to be had");
  const std::string file =
      (std::filesystem::temp_directory_path() / ("weir-bench-" + std::to_string(getpid()))).string();
  const std::array<pid_t, 2> children = {start(0, ends[1], file), start(1, ends[1], file)};
  close(ends[1]);
  std::array<std::int64_t, 2> moments{};
  Moment one{};
  while (read(ends[0], &one, sizeof one) == sizeof one) moments[one.rank == 0 ? 0 : 1] = one.nanoseconds;
  close(ends[0]);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  if (moments[0] == 0 || moments[1] == 0) throw std::runtime_error("a killed rank was not reported");
  return static_cast<double>(moments[0] - moments[1]) * 1e-9;
}

}  // namespace mpi_bench
