// `weir trace --cuda`: any program that uses CUDA.
#include "trace_cuda.hpp"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

#include "files.hpp"
#include "program.hpp"
#include "temporary_file.hpp"

namespace tool {

namespace {

/// Beside the tool, where it is installed and where it was built.
std::string library() {
  const std::filesystem::path tool = std::filesystem::read_symlink("/proc/self/exe");
  const std::filesystem::path made = (tool.parent_path() / WEIR_CUDA_TRACE_PLACE).lexically_normal();
  if (!std::filesystem::exists(made)) {
    throw std::runtime_error(fmt::format(
        "{} is missing: Weir was built where there was no cupti.h, or was not installed whole", made.string()));
  }
  return made.string();
}

/// What the processes of the program have said.
struct Report {
  int processes = 0;
  std::uint64_t commands = 0;
  std::string error;                    ///< the first
  std::vector<std::string> others;      ///< files of those behind the first
  std::vector<std::string> unfinished;  ///< files of those that did not say how it went
};
/// As src/foreign/cupti/inject.cpp names it.
std::string file_of(bool first, const std::string& number, const std::string& output) {
  std::filesystem::path path = output;
  if (!first) path.replace_filename(path.stem().string() + "." + number + path.extension().string());
  return path.string();
}
Report read_report(const std::string& path, const std::string& output) {
  Report made;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string what, rest;
    words >> what;
    if (what == "process") {
      words >> rest;
      made.unfinished.push_back(file_of(made.processes++ == 0, rest, output));
    }
    if (what == "commands") {
      std::uint64_t commands = 0;
      words >> commands;
      made.commands += commands;
      std::getline(words >> std::ws, rest);
      if (rest != output) made.others.push_back(rest);
      std::erase(made.unfinished, rest);
    }
    if (what == "error" && made.error.empty()) std::getline(words >> std::ws, made.error);
  }
  if (!made.error.empty()) made.unfinished.clear();
  return made;
}

}  // namespace

Exit trace_cuda(const std::vector<std::string>& program, const CudaTraceOptions& options) {
  const std::string output = std::filesystem::absolute(options.output).lexically_normal().string();
  check_writable("-o", output);
  for (const char* variable : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"}) {
    if (std::getenv(variable) != nullptr) {
      throw UsageError(
          fmt::format("{} is set: another tool looks at the program, and CUDA takes one at a time", variable));
    }
  }
  const TemporaryFile report_file(".txt");
  const std::string injected = library();
  Switches switches = {{"CUDA_INJECTION64_PATH", injected},
                       {"NVTX_INJECTION64_PATH", injected},
                       {"WEIR_CUDA_TRACE", output},
                       {"WEIR_CUDA_TRACE_REPORT", report_file.path()}};
  if (options.graph_nodes) switches.emplace_back("WEIR_CUDA_TRACE_NODES", "1");
  const int code = run_program(program, switches);
  const Report report = read_report(report_file.path(), output);
  for (const std::string& file : report.others)
    std::fprintf(stderr, "weir: a process that it started: %s\n", file.c_str());
  for (const std::string& file : report.unfinished) {
    fmt::print(
        stderr,
        "weir: {} (exit code {}), or a process that it started, did not end by exit(): {} has what CUPTI had told "
        "until it was last written, at most a second or so before\n",
        program.front(), code, file);
  }
  const bool nothing = report.processes == 0 && report.error.empty();  // an error was told where it happened
  const std::string why =
      nothing ? fmt::format("{} made no call of CUDA: nothing was recorded", program.front()) : report.error;
  if (code == 0 && !why.empty()) throw std::runtime_error(why);
  if (nothing) fmt::print(stderr, "weir: {}\n", why);
  return static_cast<Exit>(code);
}

}  // namespace tool
