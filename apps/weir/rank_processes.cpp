// Starts the ranks of a job, and passes their output, signals and exit codes on.
#include "rank_processes.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>

#include "exit.hpp"

namespace tool {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t longest_line = 64 * 1024;       ///< what is longer comes in several
constexpr auto last_words = std::chrono::seconds(2);  ///< from SIGTERM to SIGKILL

[[noreturn]] void fail(const char* what) {
  throw std::runtime_error(fmt::format("{}: {}", what, std::generic_category().message(errno)));
}

class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~File() { close(); }
  int get() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

struct Pipe {
  File read, write;
};
Pipe make_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("no pipe");
  return {File(ends[0]), File(ends[1])};
}

void write_all(int to, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(to, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // nobody reads it any more: the ranks go on
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// One output of a rank: whole lines go on, with their prefix.
class Output {
 public:
  Output(File from, int to, std::string prefix) : from_(std::move(from)), to_(to), prefix_(std::move(prefix)) {
    fcntl(from_.get(), F_SETFL, O_NONBLOCK);
  }
  int file() const { return from_.get(); }

  /// What there is now. At its end it is closed.
  void pass_on() {
    std::array<char, 16 * 1024> room;
    while (from_.get() >= 0) {
      const ssize_t got = read(from_.get(), room.data(), room.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return;
      if (got == 0) {
        from_.close();
        break;
      }
      take({room.data(), static_cast<std::size_t>(got)});
    }
    finish();
  }
  void finish() {
    if (!line_.empty()) write_all(to_, prefix_ + line_ + '\n');
    line_.clear();
  }

 private:
  void take(std::string_view text) {
    std::string out;
    while (!text.empty()) {
      const std::size_t end = text.find('\n');
      line_ += text.substr(0, end);
      text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
      if (end == std::string_view::npos && line_.size() < longest_line) break;
      out += prefix_ + line_ + '\n';
      line_.clear();
    }
    write_all(to_, out);
  }

  File from_;
  int to_;
  std::string prefix_;
  std::string line_;
};

/// Those that somebody may send to the tool, as a file to be read.
class Signals {
 public:
  Signals() {
    sigemptyset(&held_);
    for (const int signal : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM}) {
      sigaddset(&held_, signal);
    }
    sigprocmask(SIG_BLOCK, &held_, &before_);
    std::signal(SIGCHLD, SIG_DFL);  // where it is ignored, nobody learns how a program ended
    file_ = File(signalfd(-1, &held_, SFD_CLOEXEC | SFD_NONBLOCK));
    if (file_.get() < 0) fail("no file for signals");
  }
  ~Signals() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  int file() const { return file_.get(); }
  const sigset_t& before() const { return before_; }
  /// The next one that has come; 0: none.
  int next() const {
    signalfd_siginfo information;
    if (read(file_.get(), &information, sizeof information) != sizeof information) return 0;
    const int signal = static_cast<int>(information.ssi_signo);
    // What the terminal sends goes to the programs, too.
    const bool sent = signal == SIGCHLD || static_cast<int>(information.ssi_code) <= 0;
    return sent ? signal : next();
  }

 private:
  sigset_t held_;
  sigset_t before_;
  File file_;
};

class Job {
 public:
  Job(const std::vector<std::string>& words, const RankOptions& options) : words_(words), options_(options) {}
  ~Job() {
    for (Rank& rank : ranks_) {
      if (rank.process < 0) continue;
      kill(rank.process, SIGKILL);
      waitpid(rank.process, nullptr, 0);
    }
  }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  int run() {
    ranks_.resize(static_cast<std::size_t>(options_.ranks));
    for (int rank = 0; rank < options_.ranks; ++rank) start(rank);
    while (running_ > 0) {
      wait();
      for (int signal = signals_.next(); signal != 0; signal = signals_.next()) {
        if (signal != SIGCHLD) send(signal);
      }
      reap();
      pass_on();
      end_the_rest();
    }
    pass_on();
    for (Rank& rank : ranks_) {
      for (std::optional<Output>& output : rank.outputs) {
        if (output) output->finish();
      }
    }
    return code_;
  }

 private:
  struct Rank {
    pid_t process = -1;
    std::array<std::optional<Output>, 2> outputs;
  };

  void start(int number) {
    Rank& rank = ranks_[static_cast<std::size_t>(number)];
    std::array<Pipe, 2> outputs;
    if (options_.prefixed) outputs = {make_pipe(), make_pipe()};
    Pipe report = make_pipe();  // closed by exec, or told why there was none
    const pid_t tool = getpid();
    const pid_t made = fork();
    if (made < 0) fail("no process can be made");
    if (made == 0) become(number, outputs, report, tool);
    rank.process = made;
    ++running_;
    report.write.close();
    int why = 0;
    if (read(report.read.get(), &why, sizeof why) == sizeof why) {
      throw UsageError(fmt::format("cannot start '{}': {}", words_[0], std::generic_category().message(why)));
    }
    if (!options_.prefixed) return;
    const std::string prefix = fmt::format("[{}] ", number);
    for (int i = 0; i < 2; ++i) {
      const auto at = static_cast<std::size_t>(i);
      rank.outputs[at].emplace(std::move(outputs[at].read), i + 1, prefix);
    }
  }

  /// The new process, until it is the program.
  [[noreturn]] void become(int number, std::array<Pipe, 2>& outputs, Pipe& report, pid_t tool) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != tool) _exit(127);  // it was gone before that
    const std::string text = std::to_string(number);
    setenv("RANK", text.c_str(), 1);
    setenv("LOCAL_RANK", text.c_str(), 1);
    if (number != 0) {
      const int nothing = open("/dev/null", O_RDONLY);
      dup2(nothing, 0);
    }
    if (options_.prefixed) {
      dup2(outputs[0].write.get(), 1);
      dup2(outputs[1].write.get(), 2);
    }
    sigprocmask(SIG_SETMASK, &signals_.before(), nullptr);
    std::vector<char*> arguments;
    for (const std::string& word : words_) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    const int why = errno;
    [[maybe_unused]] const ssize_t told = write(report.write.get(), &why, sizeof why);
    _exit(127);
  }

  void wait() {
    std::vector<pollfd> files = {{signals_.file(), POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      for (const std::optional<Output>& output : rank.outputs) {
        if (output && output->file() >= 0) files.push_back({output->file(), POLLIN, 0});
      }
    }
    int milliseconds = -1;
    if (end_at_) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(*end_at_ - Clock::now()).count();
      milliseconds = static_cast<int>(std::max<std::int64_t>(left, 0));
    }
    poll(files.data(), files.size(), milliseconds);
  }

  void pass_on() {
    for (Rank& rank : ranks_) {
      for (std::optional<Output>& output : rank.outputs) {
        if (output) output->pass_on();
      }
    }
  }

  void send(int signal) {
    for (const Rank& rank : ranks_) {
      if (rank.process >= 0) kill(rank.process, signal);
    }
  }

  void reap() {
    for (std::size_t number = 0; number < ranks_.size(); ++number) {
      Rank& rank = ranks_[number];
      int status = 0;
      if (rank.process < 0 || waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.process = -1;
      --running_;
      const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      if (code == 0) continue;
      fmt::print(stderr, "weir: rank {} {} {}\n", number,
                 WIFEXITED(status) ? "ended with exit code" : "was ended by signal",
                 WIFEXITED(status) ? code : code - 128);
      if (code_ != 0) continue;
      code_ = code;
      end_at_ = Clock::now() +
                std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(options_.grace_seconds));
    }
  }

  /// One has failed, and the others had their time.
  void end_the_rest() {
    if (running_ == 0 || !end_at_ || Clock::now() < *end_at_) return;
    fmt::print(stderr, "weir: {} more {}: {}\n", running_, running_ == 1 ? "rank goes on" : "ranks go on",
               told_ ? "killed" : "told to end (SIGTERM)");
    send(told_ ? SIGKILL : SIGTERM);
    send(SIGCONT);  // one that is stopped would not hear it
    told_ = true;
    end_at_ = Clock::now() + last_words;
  }

  const std::vector<std::string>& words_;
  const RankOptions options_;
  const Signals signals_;
  std::vector<Rank> ranks_;
  int running_ = 0;
  int code_ = 0;
  bool told_ = false;
  std::optional<Clock::time_point> end_at_;
};

}  // namespace

int run_ranks(const std::vector<std::string>& words, const Switches& switches, const RankOptions& options) {
  for (const auto& [name, value] : switches) setenv(name.c_str(), value.c_str(), 1);
  return Job(words, options).run();
}

}  // namespace tool
