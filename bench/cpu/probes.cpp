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

/// The probe's answer. Where it has none, what it was to do was not done.
double figure_of(const std::string& command) {
  try {
    return std::stod(output_of(command));
  } catch (const std::exception& failure) {
    expect(false, failure.what());
    return -1;
  }
}

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
  figure_of(
      "valgrind -q --tool=callgrind --separate-threads=yes --fair-sched=yes --collect-atstart=no"
      " --toggle-collect=" +
      what + "_launches --callgrind-out-file='" + (folder / "out").string() + "' '" + probe + "' " + what + " " +
      std::to_string(count));
  const double total = counted_instructions(folder);
  expect(total != 0, "callgrind counted nothing");
  return total;
}

/// A row whose figure is no time: others do not change it.
void add_count(Context& context, Row row, double count, double most) {
  row.value = {count, count, count};
  row.reach = {at_most(most, row.unit)};
  row.others_matter_not = true;
  context.report.add(row);
}

}  // namespace

void instructions(Context& context) {
  constexpr std::size_t few = 10'000;
  constexpr std::size_t many = 30'000;
  const auto count = [&](const std::string& what) {
    return (submission_instructions(context.probe, what, many) - submission_instructions(context.probe, what, few)) /
           static_cast<double>(many - few);
  };
  const auto add = [&](const std::string& row, const std::string& text, double each, double most) {
    add_count(context, {row, text, "instr"}, each, most);
  };
  // Ten more than the 56 that an empty one took when the bound was set: for the copy into the queue, more chunks, and what the
  // caller does to make the closure, which of 64 bytes is 7 instructions here.
  constexpr double with_closure = 66;
  add("submit.instructions", "submission of an empty launch", count("submit"), 60);
  add("submit.instructions.32", "submission with a closure of 32 bytes", count("submit32"), with_closure);
  add("submit.instructions.64", "submission with a closure of 64 bytes", count("submit64"), with_closure);
}

void allocations(Context& context) {
  const double count =
      figure_of("'" + context.probe + "' allocations " + std::to_string(context.options.cut(1'000'000)));
  add_count(context, {"launch.allocations", "calls of malloc per warm launch", "calls"}, count, 0);
}

void replay_allocations(Context& context) {
  const double count = figure_of("'" + context.probe + "' replays " + std::to_string(context.options.cut(100'000)));
  add_count(context, {"graph.allocations", "calls of malloc per warm replay", "calls"}, count, 0);
}

void flat_memory(Context& context) {
  const std::string launches = context.counts(100'000'000);
  const double growth = figure_of("'" + context.probe + "' flat " + std::to_string(context.options.cut(100'000'000)));
  add_count(context, {"launch.memory", "growth over " + launches + " launches", "MiB"}, growth, 1);
}

}  // namespace bench
