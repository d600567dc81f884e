// The counts of all threads, kept when a thread ends, and the complaint of the row that is measured.
#include "proof.hpp"

#include <atomic>
#include <cstdlib>
#include <utility>

namespace bench {

namespace {

struct alignas(64) Tally {
  std::uint64_t count = 0;
};
// One for each thread there ever was. Not from the heap: allocations are counted, too.
constexpr std::size_t most_threads = 1 << 16;
constinit Tally tallies[most_threads];
constinit std::atomic<std::size_t> threads{0};

std::string& complaint() {
  static std::string text;
  return text;
}

}  // namespace

void expect(bool done, const std::string& what) {
  if (!done && complaint().empty()) complaint() = what;
}
std::string take_complaint() { return std::exchange(complaint(), {}); }

std::uint64_t* new_tally() {
  const std::size_t thread = threads.fetch_add(1);
  if (thread >= most_threads) std::abort();
  return &tallies[thread].count;
}

std::uint64_t tallied() {
  std::uint64_t sum = 0;
  for (std::size_t thread = threads.load(); thread-- > 0;) sum += tallies[thread].count;
  return sum;
}

}  // namespace bench
