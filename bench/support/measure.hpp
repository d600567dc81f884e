// How figures are taken: clocks, medians, and ours and its raw counterpart by turns in one run.
#pragma once

#include <chrono>
#include <cstddef>
#include <vector>

namespace bench {

struct Options {
  std::size_t repetitions = 9;
  std::size_t divide = 1;               ///< short runs do this part of the work
  std::chrono::milliseconds pause{30};  ///< before each figure: threads of libgomp spin for some milliseconds

  /// The count of a long run, cut down for a short one.
  std::size_t cut(std::size_t count) const { return count / divide < 1 ? 1 : count / divide; }
};

struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
};
Spread spread(std::vector<double> figures);

struct Pair {
  Spread raw;
  Spread ours;
};

template <class F>
double seconds(F&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Lets threads that still spin from the measurement before go to sleep: libgomp's do so for some milliseconds.
void settle(const Options& options);

/// CPU time that this process has used, all threads.
double cpu_seconds();
/// Memory of this process that is resident now.
double resident_mib();

/// Figures of `raw` and `ours` by turns, so that both meet the same disturbances. The first turn of each is not counted.
template <class Raw, class Ours>
Pair by_turns(const Options& options, Raw&& raw, Ours&& ours) {
  std::vector<double> raw_figures;
  std::vector<double> our_figures;
  for (std::size_t turn = 0; turn <= options.repetitions; ++turn) {
    settle(options);
    const double raw_figure = raw();
    settle(options);
    const double our_figure = ours();
    if (turn == 0) continue;
    raw_figures.push_back(raw_figure);
    our_figures.push_back(our_figure);
  }
  return {spread(std::move(raw_figures)), spread(std::move(our_figures))};
}

template <class Ours>
Spread repeat(const Options& options, Ours&& ours) {
  std::vector<double> figures;
  for (std::size_t turn = 0; turn <= options.repetitions; ++turn) {
    settle(options);
    const double figure = ours();
    if (turn != 0) figures.push_back(figure);
  }
  return spread(std::move(figures));
}

}  // namespace bench
