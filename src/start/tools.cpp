// What the environment asks for when a program first calls Weir: tools that need no change of its code.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <weir/check.hpp>
#include <weir/error.hpp>
#include <weir/recorder.hpp>
#include <weir/recording.hpp>
#include <weir/trace.hpp>

namespace weir::detail {

namespace {

/// Null for what is not asked for.
const char* asked_for(const char* variable) {
  const char* const value = std::getenv(variable);
  return value == nullptr || *value == '\0' ? nullptr : value;
}

/// Whether what the host does between its calls takes real time on simulated devices.
bool host_is_measured() {
  const char* const value = asked_for("WEIR_SIM_HOST");
  const std::string how = value != nullptr ? value : "said";
  if (how != "said" && how != "measured")
    throw Error(Errc::invalid_value, "weir: starting", "WEIR_SIM_HOST", "'" + how + "': it is said, or measured", {});
  return how == "measured";
}

/// Records until the process exits, and saves.
class RecorderOfProcess {
 public:
  explicit RecorderOfProcess(std::filesystem::path path) : path_(std::move(path)), process_(getpid()) {
    // Now, and not when all is over, it turns out that the file cannot be written.
    if (const std::string why = why_unwritable(path_); !why.empty())
      throw std::runtime_error("it cannot be written: " + why);
    recorder_ = std::make_unique<Recorder>(RecorderOptions{.host_times = host_is_measured()}, SourceLocation{});
  }
  void end() noexcept {
    if (getpid() != process_) return;  // a child has the parent's
    try {
      save(recorder_->finish(), path_, {});
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weir: WEIR_RECORD: %s\n", error.what());
    }
  }

 private:
  std::filesystem::path path_;
  pid_t process_;
  std::unique_ptr<Recorder> recorder_;
};

/// What WEIR_CHECK asks for.
struct CheckRequest {
  CheckOptions options;
  std::filesystem::path json;  ///< empty: none is written
  int exit_code = 66;          ///< of a program that would end with 0, and has findings at error level
};

std::string contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::invalid_argument("'" + path + "' cannot be read");
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

template <class Number>
bool reads_number(const std::string& text, Number& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc() && read.ptr == text.data() + text.size() && !text.empty();
}

void add(CheckRequest& request, std::string_view item) {
  const std::size_t equals = item.find('=');
  const std::string_view key = item.substr(0, equals);
  const std::string value(equals == std::string_view::npos ? "" : item.substr(equals + 1));
  const auto is = [&](std::string_view wanted) { return item == wanted; };
  if (is("1") || is("print")) {
    request.options.mode = CheckMode::print;
  } else if (is("throw")) {
    request.options.mode = CheckMode::throw_error;
  } else if (is("collect")) {
    request.options.mode = CheckMode::collect;
  } else if (is("hints")) {
    request.options.hints = true;
  } else if (is("host_order=declared")) {
    request.options.host_order = HostOrder::declared;
  } else if (is("host_order=observed")) {
    request.options.host_order = HostOrder::observed;
  } else if (key == "json" && !value.empty()) {
    request.json = std::filesystem::absolute(value);
  } else if (key == "suppress" && !value.empty()) {
    request.options.suppressions = contents(value);
    request.options.suppressions_name = value;
  } else if (key == "exit") {
    if (!reads_number(value, request.exit_code) || request.exit_code < 0 || request.exit_code > 255) {
      throw std::invalid_argument("'" + std::string(item) + "': a number from 0 to 255");
    }
  } else if (key == "max") {
    if (!reads_number(value, request.options.max_findings))
      throw std::invalid_argument("'" + std::string(item) + "': a number of findings; 0: no limit");
  } else {
    throw std::invalid_argument("'" + std::string(item) +
                                "': one of 1, print, throw, collect, json=FILE, hints, host_order=declared, "
                                "host_order=observed, suppress=FILE, max=N and exit=N");
  }
}

CheckRequest read_request(std::string_view list) {
  CheckRequest request;
  request.options.leaks = true;  // it ends with the process
  for (;;) {
    const std::size_t comma = list.find(',');
    add(request, list.substr(0, comma));
    if (comma == std::string_view::npos) return request;
    list.remove_prefix(comma + 1);
  }
}

/// Checks until the process exits.
class CheckerOfProcess {
 public:
  explicit CheckerOfProcess(CheckRequest request)
      : request_(std::move(request)), process_(getpid()), checker_(request_.options, SourceLocation{}) {
    // Now, and not when all is over, it turns out that the file cannot be written.
    // To open a pipe would wait for its reader, who would see an end.
    std::error_code ignored;
    const bool tried = !request_.json.empty() && !std::filesystem::is_fifo(request_.json, ignored);
    if (tried && !std::ofstream(request_.json, std::ios::app)) throw std::invalid_argument(unwritable());
  }
  /// The exit code of the process that would end with `status`.
  int end(int status) noexcept {
    if (getpid() != process_) return status;  // a child has the parent's
    try {
      finish();
      if (!request_.json.empty()) write(status);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "weir: WEIR_CHECK: %s\n", error.what());
      // Nobody has read of them elsewhere.
      if (request_.options.mode == CheckMode::collect) std::fputs(to_text(checker_.report()).c_str(), stderr);
    }
    return status == 0 && checker_.errors() > 0 ? request_.exit_code : status;
  }

 private:
  void finish() {
    try {
      checker_.finish();
    } catch (const Error& error) {
      if (error.errc() != Errc::not_permitted) throw;
      // Called inside a host function or kernel, which keeps its stream from ending.
      std::fprintf(
          stderr,
          "weir: WEIR_CHECK: the process ends inside a host function or kernel: %zu errors so far, and leaks are "
          "not looked for\n",
          checker_.errors());
    }
  }
  std::string unwritable() const { return "'" + request_.json.string() + "' cannot be written"; }
  void write(int status) const {
    CheckReport report = checker_.report();
    report.program_exit = status;
    std::ofstream file(request_.json);
    file << to_json(report) << "\n" << std::flush;
    if (!file) throw std::runtime_error(unwritable());
  }

  CheckRequest request_;
  pid_t process_;
  Checker checker_;
};

/// Records a timeline until the process exits. `weir trace` learns from WEIR_TRACE_REPORT, a file of lines, which processes there
/// were, where each one's timeline is, and which of them came to their ends: "process PID FILE", and "ended PID".
class TraceOfProcess {
 public:
  explicit TraceOfProcess(const std::filesystem::path& asked) {
    std::filesystem::path path = std::filesystem::absolute(asked);
    report([&](bool first) {
      // What a process starts has files of its own.
      if (!first) path.replace_filename(path.stem().string() + "." + who_ + path.extension().string());
      return "process " + who_ + " " + path.string();
    });
    try {
      session_ = std::make_unique<trace::Session>(trace::SessionOptions{.file = path}, SourceLocation{});
    } catch (...) {
      end();
      throw;
    }
  }
  void end() {
    const bool inherited = getpid() != process_;
    session_.reset();  // a child's is the parent's, and writes nothing
    if (!inherited) report([this](bool) { return "ended " + who_; });
  }

 private:
  /// The line is made of whether it is the first one.
  template <class Line>
  static void report(const Line& line) {
    const char* const path = std::getenv("WEIR_TRACE_REPORT");
    const int file = path == nullptr ? -1 : open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (file >= 0) flock(file, LOCK_EX);
    const std::string text = line(file < 0 || lseek(file, 0, SEEK_END) == 0) + "\n";
    if (file < 0) return;
    if (write(file, text.data(), text.size()) < 0) std::fprintf(stderr, "weir: trace: %s cannot be written\n", path);
    close(file);
  }

  const pid_t process_ = getpid();
  const std::string who_ = std::to_string(process_);
  std::unique_ptr<trace::Session> session_;
};

RecorderOfProcess* recorder_of_process = nullptr;
CheckerOfProcess* checker_of_process = nullptr;
TraceOfProcess* trace_of_process = nullptr;

void start_recorder(const char* path) {
  try {
    recorder_of_process = new RecorderOfProcess(std::filesystem::absolute(path));
  } catch (const std::exception& error) {
    throw Error(Errc::invalid_value, "weir: starting", "WEIR_RECORD", "'" + std::string(path) + "': " + error.what(),
                {});
  }
  std::atexit([] { recorder_of_process->end(); });
}

void start_checker(const char* list) {
  try {
    checker_of_process = new CheckerOfProcess(read_request(list));
  } catch (const std::exception& error) {
    throw Error(Errc::invalid_value, "weir: starting", "WEIR_CHECK", error.what(), {});
  }
  on_exit(
      [](int status, void*) {
        const int code = checker_of_process->end(status);
        if (code != status) std::exit(code);  // goes on with what is left to do at the end
      },
      nullptr);
}

void start_trace(const char* path) {
  try {
    trace_of_process = new TraceOfProcess(path);
  } catch (const Error& error) {
    throw Error(Errc::invalid_value, "weir: starting", "WEIR_TRACE", "'" + std::string(path) + "': " + error.what(),
                {});
  }
  std::atexit([] { trace_of_process->end(); });
}

}  // namespace

void start_tools() {
  host_is_measured();  // programs without a simulated device hear of a slip, too
  if (const char* const path = asked_for("WEIR_RECORD")) start_recorder(path);
  if (const char* const path = asked_for("WEIR_TRACE")) start_trace(path);
  if (const char* const list = asked_for("WEIR_CHECK")) start_checker(list);
}

}  // namespace weir::detail
