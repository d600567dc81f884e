// Starts the program with pipes, or a pseudo-terminal, on its outputs.
#include "tool.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tool_test {

namespace {

constexpr auto patience = std::chrono::seconds(100);

/// Two ends of a pipe or of a pseudo-terminal.
struct Channel {
  int read = -1;
  int write = -1;
};

Channel make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
  return {ends[0], ends[1]};
}

/// Without ends where the machine has no pseudo-terminals.
Channel make_terminal() {
  Channel ends{posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)};
  if (ends.read < 0) return {};
  if (grantpt(ends.read) == 0 && unlockpt(ends.read) == 0) {
    if (const char* name = ptsname(ends.read)) ends.write = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  if (ends.write >= 0) return ends;
  close(ends.read);
  return {};
}

[[noreturn]] void become(const std::vector<std::string>& arguments, const Setting& setting, int out, int err) {
  for (const std::string& pair : setting.environment) {
    const std::size_t equals = pair.find('=');
    setenv(pair.substr(0, equals).c_str(), pair.substr(equals + 1).c_str(), 1);
  }
  if (setting.memory != 0) {
    const rlimit limit{setting.memory, setting.memory};
    setrlimit(RLIMIT_DATA, &limit);
  }
  if (!setting.out_path.empty()) out = open(setting.out_path.c_str(), O_WRONLY);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  std::string path = tool_path();
  std::vector<char*> argv = {path.data()};
  std::vector<std::string> copies = arguments;
  for (std::string& argument : copies) argv.push_back(argument.data());
  argv.push_back(nullptr);
  execv(path.c_str(), argv.data());
  _exit(127);
}

/// Appends what can be read; false at the end. A terminal ends with EIO.
bool read_some(int descriptor, std::string& text) {
  std::array<char, 4096> buffer;
  const ssize_t count = read(descriptor, buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count <= 0) return false;
  text.append(buffer.data(), static_cast<std::size_t>(count));
  return true;
}

void read_both(int out, int err, pid_t child, Result& result) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::array<pollfd, 2> sources = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}};
  while (sources[0].fd >= 0 || sources[1].fd >= 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      result.timed_out = true;
      kill(child, SIGKILL);
      return;
    }
    poll(sources.data(), sources.size(), 200);
    if (sources[0].fd >= 0 && sources[0].revents != 0 && !read_some(out, result.out)) sources[0].fd = -1;
    if (sources[1].fd >= 0 && sources[1].revents != 0 && !read_some(err, result.err)) sources[1].fd = -1;
  }
}

}  // namespace

std::string tool_path() {
  if (const char* named = std::getenv("WEIR_TOOL")) return named;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "weir";
}

bool has_terminals() {
  const Channel terminal = make_terminal();
  if (terminal.write < 0) return false;
  close(terminal.write);
  close(terminal.read);
  return true;
}

Result run(const std::vector<std::string>& arguments, const Setting& setting) {
  const Channel out = make_pipe();
  const Channel err = setting.terminal ? make_terminal() : make_pipe();
  if (err.write < 0) throw std::runtime_error("no pseudo-terminal: ask has_terminals() before");
  const pid_t child = fork();
  if (child == 0) become(arguments, setting, out.write, err.write);
  close(out.write);
  close(err.write);
  Result result;
  read_both(out.read, err.read, child, result);
  int status = 0;
  waitpid(child, &status, 0);
  close(out.read);
  close(err.read);
  if (WIFEXITED(status) && !result.timed_out) result.exit_code = WEXITSTATUS(status);
  return result;
}

std::string text(const std::vector<std::string>& arguments, const Result& result) {
  std::string all = "weir";
  for (const std::string& argument : arguments) all += " " + argument;
  all += "\nexit code " + std::to_string(result.exit_code) + (result.timed_out ? ", timed out" : "");
  return all + "\nstdout: " + result.out + "\nstderr: " + result.err;
}

}  // namespace tool_test
