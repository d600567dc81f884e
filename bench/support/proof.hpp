// Proof that what was measured was done: tasks are counted as they run, results are compared, and what is found wrong goes
// to the next row of the report.
#pragma once

#include <cstdint>
#include <string>

namespace bench {

/// Of a build whose kernels, tasks and copies do nothing: there every row must be wrong.
#if defined(WEIR_BENCH_SABOTAGE)
inline constexpr bool sabotaged = true;
#else
inline constexpr bool sabotaged = false;
#endif

/// Notes `what` unless `done`.
void expect(bool done, const std::string& what);
/// What was noted first since the last call; empty if nothing was.
std::string take_complaint();

std::uint64_t* new_tally();
inline constinit thread_local std::uint64_t* own_tally = nullptr;

/// By a task: it runs. Costs an addition to a word of the thread's own.
inline void tally() {
  if constexpr (sabotaged) return;
  if (own_tally == nullptr) [[unlikely]]
    own_tally = new_tally();
  ++*own_tally;
}
/// How many tasks of all threads have run. The caller waited for them.
std::uint64_t tallied();

/// The figure of `work`, which has to run so many tasks.
template <class Work>
double counted(std::uint64_t tasks, Work&& work) {
  const std::uint64_t before = tallied();
  const double figure = work();
  const std::uint64_t ran = tallied() - before;
  expect(ran == tasks, std::to_string(ran) + " of " + std::to_string(tasks) + " tasks ran");
  return figure;
}

}  // namespace bench
