// What the benchmark programs are told: which benchmarks, how long, and where to write the rows.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "measure.hpp"

namespace bench {

struct Arguments {
  std::vector<std::string> only;
  bool quick = false;
  bool strict = false;  ///< a row that falls short is an error
  std::string json;

  Options options() const;
};

/// Throws invalid_argument for what it does not know.
Arguments parse(int argc, char** argv);

/// A benchmark of a program, by the name that `--only` takes.
template <class Context>
struct Named {
  std::string_view name;
  void (*run)(Context&);
};

/// Those that were asked for, or all. Throws invalid_argument for a name that there is not.
template <class Context, std::size_t N>
std::vector<Named<Context>> choose(const Named<Context> (&all)[N], const std::vector<std::string>& only) {
  if (only.empty()) return {std::begin(all), std::end(all)};
  std::vector<Named<Context>> chosen;
  for (const std::string& name : only) {
    const auto* found = std::find_if(std::begin(all), std::end(all), [&](const auto& b) { return b.name == name; });
    if (found == std::end(all)) throw std::invalid_argument("no benchmark '" + name + "'");
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace bench
