// Closures that are copied in one piece: they come whole and in order, wherever the memory of their queue goes on elsewhere.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <vector>

#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace weir_test {
namespace {

struct Arrived {
  std::size_t words = 0;
  bool whole = true;
};

/// Of one launch with so many words in its closure, beside where it tells.
template <std::size_t words>
void launch_numbered(const weir::Stream& s, std::vector<Arrived>& arrived, std::size_t number) {
  std::array<std::size_t, words> values;
  for (std::size_t w = 0; w < words; ++w) values[w] = number * 16 + w;
  weir::launch(s, 1, [&arrived, values](std::size_t) {
    const std::size_t me = arrived.size();
    bool whole = true;
    for (std::size_t w = 0; w < words; ++w) whole = whole && values[w] == me * 16 + w;
    arrived.push_back({words, whole});
  });
}

TEST(PlainLaunches, closures_of_all_sizes_come_whole_and_in_order_over_many_pieces_of_memory) {
  constexpr std::size_t all = 6'000;
  const weir::Stream s(weir::device("cpu"), {.blocking = false});
  std::vector<Arrived> arrived;
  arrived.reserve(all);
  Gate gate;
  gate.hold(s);
  // Of 24, 32, 64 and 72 bytes; by sevens and fives, so that every size meets the end of a piece of memory.
  for (std::size_t i = 0; i < all; ++i) {
    switch (i * 5 % 7 % 4) {
      case 0: launch_numbered<1>(s, arrived, i); break;
      case 1: launch_numbered<2>(s, arrived, i); break;
      case 2: launch_numbered<6>(s, arrived, i); break;
      default: launch_numbered<7>(s, arrived, i); break;
    }
  }
  gate.open();
  s.synchronize();
  ASSERT_EQ(arrived.size(), all);
  for (std::size_t i = 0; i < all; ++i) ASSERT_TRUE(arrived[i].whole) << "launch " << i << ", " << arrived[i].words;
}

}  // namespace
}  // namespace weir_test
