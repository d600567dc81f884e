// Collectives of timelines: which parts belong together, and when the last rank came.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include <weir/trace.hpp>

namespace weir::trace {

/// Numbers for the parts of each collective, from 1 on. Parts are told in the order of their ranks' calls.
class CollectiveNumbers {
 public:
  /// `number` is the library's, the same on all ranks; 0: it has none, as of sends, and a rank's are counted.
  std::uint32_t of(std::string_view call, std::uint64_t communicator, std::uint64_t number, int rank, int peer);

 private:
  using Key = std::tuple<std::uint64_t, int, int, std::uint64_t>;  ///< communicator, from, to, number
  std::map<Key, std::uint32_t> numbers_;
  std::map<std::tuple<std::uint64_t, int, int, bool>, std::uint64_t> counts_;
};

/// The parts of one collective that ran, and the moment at which each rank was ready: its call was made, and what it comes behind had ended.
struct Meeting {
  struct Part {
    const CollectivePart* part;
    std::int64_t ready;
  };
  std::vector<Part> parts;
  std::size_t last = 0;  ///< which of them was ready last
  std::int64_t end = 0;  ///< of all
  std::int64_t came() const { return parts[last].ready; }
};
/// Those of a timeline, in the order of their numbers.
std::vector<Meeting> meetings(const Timeline& timeline);
void add_exchanges(const Timeline& timeline, Summary& made);

}  // namespace weir::trace
