// What needs a process of its own: instructions and allocations of launches and replays, and memory over many launches.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "bench.hpp"

namespace bench {

namespace {

std::string output_of(const std::string& command) {
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot start " + command);
  std::string text;
  for (char piece[256]; std::fgets(piece, sizeof piece, pipe) != nullptr;) text += piece;
  if (const int status = pclose(pipe); status != 0) {
    throw std::runtime_error("'" + command + "' ended with status " + std::to_string(status));
  }
  return text;
}

/// The last field of the probe's answer.
double figure_of(const std::string& command) { return std::stod(output_of(command)); }

/// A new folder that goes away.
struct Folder {
  Folder() {
    std::string name = std::filesystem::temp_directory_path() / "weir-bench-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + name);
    path = name;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::filesystem::path path;
};

/// The instructions that callgrind counted in all threads' files of one run.
double counted_instructions(const std::filesystem::path& folder) {
  double total = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (line.starts_with("totals: ")) total += std::stod(line.substr(8));
    }
  }
  return total;
}

/// Instructions of `count` submissions, by callgrind, which counts inside the probe's `what`_launches only.
double submission_instructions(const std::string& probe, const std::string& what, std::size_t count) {
  const Folder scratch;
  const std::filesystem::path& folder = scratch.path;
  output_of(
      "valgrind -q --tool=callgrind --separate-threads=yes --fair-sched=yes --collect-atstart=no"
      " --toggle-collect=" +
      what + "_launches --callgrind-out-file='" + (folder / "out").string() + "' '" + probe + "' " + what + " " +
      std::to_string(count));
  const double total = counted_instructions(folder);
  if (total == 0) throw std::runtime_error("callgrind counted nothing");
  return total;
}

}  // namespace

void instructions(Context& context) {
  constexpr std::size_t few = 10'000;
  constexpr std::size_t many = 30'000;
  const auto count = [&](const std::string& what) {
    return (submission_instructions(context.probe, what, many) - submission_instructions(context.probe, what, few)) /
           static_cast<double>(many - few);
  };
  const double empty = count("submit");
  const auto add = [&](const std::string& row, const std::string& text, double each, double most) {
    context.report.add({row, text, "instr", {each, each, each}, {}, {at_most(most, "instr")}});
  };
  // Beyond the empty one: the copy into the queue, more chunks, and what the caller does to make the closure.
  add("submit.instructions", "submission of an empty launch", empty, 60);
  add("submit.instructions.32", "submission with a closure of 32 bytes", count("submit32"), empty + 18);
  add("submit.instructions.64", "submission with a closure of 64 bytes", count("submit64"), empty + 28);
}

void allocations(Context& context) {
  const double count =
      figure_of("'" + context.probe + "' allocations " + std::to_string(context.options.cut(1'000'000)));
  context.report.add({"launch.allocations",
                      "calls of malloc per warm launch",
                      "calls",
                      {count, count, count},
                      {},
                      {at_most(0, "calls")}});
}

void replay_allocations(Context& context) {
  const double count = figure_of("'" + context.probe + "' replays " + std::to_string(context.options.cut(100'000)));
  context.report.add({"graph.allocations",
                      "calls of malloc per warm replay",
                      "calls",
                      {count, count, count},
                      {},
                      {at_most(0, "calls")}});
}

void flat_memory(Context& context) {
  const double growth = figure_of("'" + context.probe + "' flat " + std::to_string(context.options.cut(100'000'000)));
  context.report.add(
      {"launch.memory", "growth over 100,000,000 launches", "MiB", {growth, growth, growth}, {}, {at_most(1, "MiB")}});
}

}  // namespace bench
