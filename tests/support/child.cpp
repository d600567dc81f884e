// Child processes that play a scene, and what became of them.
#include "support/child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <stdexcept>
#include <thread>
#include <vector>

namespace weir_test {

namespace {

std::map<std::string, Scene, std::less<>>& scenes() {
  static auto* all = new std::map<std::string, Scene, std::less<>>;
  return *all;
}

/// In a child, plays its scene when main() has begun; then the child has no tests to run, and main() returns 0.
class ScenePlayer : public testing::EmptyTestEventListener {
 public:
  void OnTestProgramStart(const testing::UnitTest&) override {
    const char* name = std::getenv("WEIR_TEST_SCENE");
    if (name == nullptr) return;
    // A test that is ended by its watchdog or the runner takes its children along, stopped ones too.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto scene = scenes().find(std::string_view(name));
    insist(scene != scenes().end(), "the scene exists");
    try {
      scene->second();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "child: %s\n", error.what());
      std::_Exit(2);
    }
  }
};

/// This process's environment without the test runner's variables, and with `changes` ("NAME=value").
std::vector<std::string> environment(std::string_view scene, std::initializer_list<std::string_view> changes) {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('=') + 1);
    bool kept = !text.starts_with("GTEST_") && name != "WEIR_TEST_SCENE=";
    for (std::string_view change : changes) kept = kept && !change.starts_with(name);
    if (kept) all.emplace_back(text);
  }
  for (std::string_view change : changes) all.emplace_back(change);
  all.push_back("WEIR_TEST_SCENE=" + std::string(scene));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

/// Reads until the end, or until the limit is over.
std::string read_within(int pipe, Limit& limit) {
  std::string text;
  char buffer[4096];
  for (;;) {
    if (limit.is_over()) return text;
    pollfd wait{pipe, POLLIN, 0};
    const int ready = poll(&wait, 1, static_cast<int>(Limit::pause.count()));
    if (ready == 0) continue;
    if (ready < 0) return text;
    const ssize_t count = read(pipe, buffer, sizeof(buffer));
    if (count <= 0) return text;
    text.append(buffer, static_cast<std::size_t>(count));
  }
}

bool reap_within(pid_t child, int& status, Limit& limit) {
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (limit.is_over()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace

void insist(bool fact, const char* what) {
  if (fact) return;
  std::fprintf(stderr, "child: not so: %s\n", what);
  std::_Exit(1);
}

bool add_scene(const char* name, Scene scene) {
  static const bool player_installed [[maybe_unused]] = [] {
    testing::UnitTest::GetInstance()->listeners().Append(new ScenePlayer);
    return true;
  }();
  scenes().emplace(name, scene);
  return true;
}

testing::AssertionResult ended_well(const Outcome& outcome) {
  if (!outcome.ended) return testing::AssertionFailure() << "the child hung; its output:\n" << outcome.output;
  if (WIFSIGNALED(outcome.status)) {
    return testing::AssertionFailure() << "the child died of signal " << WTERMSIG(outcome.status) << "; its output:\n"
                                       << outcome.output;
  }
  if (WEXITSTATUS(outcome.status) != 0) {
    return testing::AssertionFailure() << "the child ended with status " << WEXITSTATUS(outcome.status)
                                       << "; its output:\n"
                                       << outcome.output;
  }
  return testing::AssertionSuccess();
}

Outcome play(std::string_view scene, std::initializer_list<std::string_view> environment_changes) {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("pipe2 failed");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  std::vector<std::string> arguments{"child", "--gtest_filter=-*"};
  std::vector<std::string> variables = environment(scene, environment_changes);
  pid_t child = 0;
  const int failure =
      posix_spawn(&child, "/proc/self/exe", &actions, nullptr, pointers(arguments).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  Outcome outcome;
  if (failure == 0) {
    Limit limit(child_limit);
    outcome.output = read_within(pipe_ends[0], limit);
    outcome.ended = reap_within(child, outcome.status, limit);
    if (!outcome.ended) {
      kill(child, SIGKILL);
      waitpid(child, &outcome.status, 0);
    }
  }
  close(pipe_ends[0]);
  if (failure != 0) throw std::runtime_error(std::string("posix_spawn failed: ") + std::strerror(failure));
  return outcome;
}

}  // namespace weir_test
