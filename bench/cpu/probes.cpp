// What needs a process of its own: instructions and allocations of launches and replays, and memory over many launches.
#include <stdexcept>
#include <string>

#include "bench.hpp"
#include "support/processes.hpp"

namespace bench {

namespace {

/// The probe's answer. Where it has none, what it was to do was not done.
double figure_of(const std::string& command) {
  try {
    return std::stod(output_of(command));
  } catch (const std::exception& failure) {
    expect(false, failure.what());
    return -1;
  }
}

/// Instructions of `count` submissions, or of as many waits. Where nothing was counted, what it was to do was not done.
double counted(const std::string& probe, const std::string& what, std::size_t count) {
  try {
    return probed_instructions(probe, what, count);
  } catch (const std::exception& failure) {
    expect(false, failure.what());
    return -1;
  }
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
    return (counted(context.probe, what, many) - counted(context.probe, what, few)) / static_cast<double>(many - few);
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
  add("wait.instructions", "an empty launch and a wait that runs it", count("wait"), 320);
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
