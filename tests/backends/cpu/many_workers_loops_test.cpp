// Parallel loops that wait for other streams, in pools of any width; run a second time with WEIR_CPU_WORKERS=16.
#include <gtest/gtest.h>

#include <random>

#include "backends/cpu/workers/futex.hpp"
#include "support/compute.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

constexpr std::size_t count = 32;

/// Work at first, wherever a worker begins, so that the loop is shared; then a wait.
struct ComputeThenWait {
  WEIR_KERNEL void operator()(std::size_t i, double* results, const int* word, int* gave_up) const {
    Compute{}(i, results, 2'000);
    if (i >= count / 2 && !wait_for_word(word)) add_to_word(gave_up, 1);
  }
};

//  urgent: [a loop ...... waits until set]
//  other:      [set]
TEST(ManyWorkers, who_joins_a_loop_leaves_no_less_urgent_stream_to_nobody) {
  const weir::Device cpu = weir::device("cpu:0");
  const weir::PriorityRange range = cpu.properties().stream_priorities;
  const weir::Stream urgent(cpu, {.priority = range.greatest, .blocking = false});
  const weir::Stream other(cpu, {.priority = range.least, .blocking = false});
  auto results = weir::zeros<double>(weir::pinned, count);
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    Marker set;
    Marker gave_up;
    mark(urgent, gave_up, 0);
    while (!urgent.done()) {  // whoever ran it spins now, and both of what follows is left to it
    }
    weir::launch(urgent, count, ComputeThenWait{}, results.data(), set.word(), gave_up.word());
    weir::cpu::pause(static_cast<int>(random() % 200));
    mark(other, set);
    ASSERT_TRUE(eventually([&] { return set.value() == 1; })) << "in round " << round;
    ASSERT_TRUE(eventually([&] { return urgent.done(); }));
    ASSERT_EQ(gave_up.value(), 0);
  }
}

}  // namespace
}  // namespace weir_test
