// Finds the waits that a program cannot do without, by taking each away.
#include "sabotage.hpp"

#include "order.hpp"

namespace weir::stress {

namespace {

/// What is missing if the wait is not there.
std::optional<Sabotage> without(const Program& program, std::size_t wait) {
  Program grown = program;
  grown.commands.clear();
  std::vector<std::size_t> number;
  Order order(grown);
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    if (i == wait) continue;
    if (const auto gap = order.gap(program.commands[i])) return Sabotage{wait, number[gap->command], i};
    number.push_back(i);
    grown.commands.push_back(program.commands[i]);
    order.append();
  }
  return std::nullopt;
}

}  // namespace

std::vector<Sabotage> necessary_waits(const Program& program) {
  std::vector<Sabotage> found;
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    if (!is_wait(program.commands[i].kind)) continue;
    if (const auto missing = without(program, i)) found.push_back(*missing);
  }
  return found;
}

std::vector<std::size_t> redundant_waits(const Program& program) {
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < program.commands.size(); ++i) {
    if (is_wait(program.commands[i].kind) && !without(program, i)) found.push_back(i);
  }
  return found;
}

Program sabotaged(const Program& program, std::size_t command) {
  Program copy = program;
  copy.commands[command].sabotaged = true;
  return copy;
}

}  // namespace weir::stress
