// Starts a program, and passes signals and exit codes on.
#include "program.hpp"

#include <csignal>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <tuple>
#include <utility>

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "exit.hpp"
#include "temporary_file.hpp"

namespace tool {

namespace {

/// Signals that are taken by sigwaitinfo() while the program runs, and SIGCHLD.
class HeldSignals {
 public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH}) {
      sigaddset(&held_, signal);
    }
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
    std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody learns how a program ended
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;

  const sigset_t& before() const { return before_; }

  /// The next one that must be passed on to the program; SIGCHLD where it has ended, or may have.
  int next() const {
    while (true) {
      siginfo_t information;
      const int signal = sigwaitinfo(&held_, &information);
      // What the terminal sends goes to the program, too.
      if (signal > 0 && (signal == SIGCHLD || information.si_code <= 0)) return signal;
    }
  }

 private:
  sigset_t held_;
  sigset_t before_;
};

class Attributes {
 public:
  explicit Attributes(const sigset_t& mask) {
    posix_spawnattr_init(&attributes_);
    posix_spawnattr_setsigmask(&attributes_, &mask);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK);
  }
  ~Attributes() { posix_spawnattr_destroy(&attributes_); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
  const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_;
};

pid_t start(const std::vector<std::string>& words, const sigset_t& mask) {
  std::vector<std::string> copies = words;
  std::vector<char*> arguments;
  for (std::string& word : copies) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t program = -1;
  const int status = posix_spawnp(&program, arguments[0], nullptr, Attributes(mask).get(), arguments.data(), environ);
  if (status != 0) {
    throw UsageError(fmt::format("cannot start '{}': {}", words[0], std::generic_category().message(status)));
  }
  return program;
}

/// Which file it is, and when it was written; nothing where there is none.
std::optional<std::tuple<ino_t, std::time_t, long>> written(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return std::tuple(status.st_ino, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

}  // namespace

int run_program(const std::vector<std::string>& words, const Switches& switches) {
  for (const auto& [name, value] : switches) setenv(name.c_str(), value.c_str(), 1);
  const HeldSignals signals;
  const pid_t program = start(words, signals.before());
  while (true) {
    const int signal = signals.next();
    if (signal != SIGCHLD) {
      kill(program, signal);
      continue;
    }
    int status = 0;
    if (waitpid(program, &status, WNOHANG) != program) continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
}

RecordedProgram record_program(const std::vector<std::string>& words, const std::string& output,
                               const std::string& device) {
  Switches switches = {{"WEIR_RECORD", output}};
  if (!device.empty()) switches.emplace_back("WEIR_DEVICE", device);
  const auto before = written(output);
  const int code = run_program(words, switches);
  const auto after = written(output);
  return {code, after && after != before};
}

std::string left_nothing(const std::string& program, int code, const char* done) {
  return fmt::format("{} made no call of Weir, or did not end by exit() (its exit code is {}): nothing was {}", program,
                     code, done);
}

LoadedProgram run_and_load(const std::vector<std::string>& words, const std::string& device, const char* done,
                           const Switches& more) {
  const TemporaryFile file(".json.gz");
  for (const auto& [name, value] : more) setenv(name.c_str(), value.c_str(), 1);
  const RecordedProgram ended = record_program(words, file.path(), device);
  if (!ended.recorded) throw std::runtime_error(left_nothing(words.front(), ended.code, done));
  return {weir::load_recording(file.path()), ended.code};
}

}  // namespace tool
