// The table of a recording's commands that have not ended: what it finds is what was put there, in whatever order they end.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <unordered_map>

#include "recording/running.hpp"

namespace {

using weir::recorded::Running;

TEST(RecordedRunning, finds_what_has_not_ended_in_whatever_order_others_end) {
  std::mt19937 random(7);
  for (int round = 0; round < 20; ++round) {
    Running running;
    std::unordered_map<std::uint64_t, std::uint32_t> expected;
    // Few ids of a wide range, so that many meet.
    const auto id = [&] { return 1 + (random() % 400) * std::uint64_t{4096}; };
    for (std::uint32_t step = 0; step < 4000; ++step) {
      const std::uint64_t one = id();
      const auto known = expected.find(one);
      if (known == expected.end() && random() % 3 != 0) {
        running.add({one, step, step % 2 == 0});
        expected.emplace(one, step);
        continue;
      }
      const Running::One* const found = running.find(one);
      ASSERT_EQ(found != nullptr, known != expected.end());
      const Running::One taken = running.take(one);
      ASSERT_EQ(taken.id, known != expected.end() ? one : 0);
      if (known == expected.end()) continue;
      ASSERT_EQ(taken.place, known->second);
      ASSERT_EQ(taken.lasts, known->second % 2 == 0);
      expected.erase(known);
    }
    for (const auto& [one, place] : expected) {
      ASSERT_NE(running.find(one), nullptr);
      ASSERT_EQ(running.find(one)->place, place);
    }
  }
}

}  // namespace
