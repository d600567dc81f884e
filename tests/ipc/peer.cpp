// Starting peers, and talking to them.
#include "ipc/peer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <vector>

namespace weir_test {

namespace {
constexpr int scenes_socket = 3;
constexpr int limit_ms = 60'000;
}  // namespace

void Talk::send(const void* data, std::size_t bytes) const {
  if (::send(socket_, data, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("the other process is gone");
  }
}

void Talk::receive(void* data, std::size_t bytes) const {
  pollfd wait{socket_, POLLIN, 0};
  if (poll(&wait, 1, limit_ms) != 1) throw std::runtime_error("the other process says nothing");
  if (recv(socket_, data, bytes, 0) != static_cast<ssize_t>(bytes)) {
    throw std::runtime_error("the other process is gone, or says something else");
  }
}

Talk test_process() { return Talk(scenes_socket); }
weir::Device test_device() { return weir::device(std::getenv("WEIR_TEST_PEERS_DEVICE")); }

Peer::Peer(std::string_view scene, weir::Device device) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) throw std::runtime_error("no socket pair");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Through another number: 3 itself would keep its mark to be closed.
  const int high = fcntl(ends[1], F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_adddup2(&actions, high, scenes_socket);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY,
                                   0);  // it runs no test, and would say so
  std::vector<std::string> variables{"WEIR_TEST_SCENE=" + std::string(scene),
                                     "WEIR_TEST_PEERS_DEVICE=" + device.name()};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with("GTEST_") && !text.starts_with("WEIR_TEST_SCENE=")) variables.emplace_back(text);
  }
  std::vector<char*> environment;
  for (std::string& variable : variables) environment.push_back(variable.data());
  environment.push_back(nullptr);
  std::string name = "peer";
  std::string filter = "--gtest_filter=-*";
  char* arguments[] = {name.data(), filter.data(), nullptr};
  const int failure = posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, arguments, environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(high);
  close(ends[1]);
  socket_ = ends[0];
  talk_ = Talk(socket_);
  if (failure != 0) throw std::runtime_error("posix_spawn failed");
}

Peer::~Peer() {
  kill();
  close(socket_);
}

void Peer::kill() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Peer::stop() const {
  ::kill(pid_, SIGSTOP);
  int status = 0;
  // The signal alone stops nobody at once: a thread on another core runs on for a moment.
  if (waitpid(pid_, &status, WUNTRACED) != pid_ || !WIFSTOPPED(status)) {
    throw std::runtime_error("the other process did not stop");
  }
}

void Peer::resume() const { ::kill(pid_, SIGCONT); }

testing::AssertionResult Peer::ends_well() {
  Outcome outcome;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  while (!outcome.ended && std::chrono::steady_clock::now() < deadline) {
    outcome.ended = waitpid(pid_, &outcome.status, WNOHANG) == pid_;
    if (!outcome.ended) usleep(1000);
  }
  if (outcome.ended) pid_ = -1;
  return ended_well(outcome);
}

}  // namespace weir_test
