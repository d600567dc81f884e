// No first launch waits for a kernel that runs (R66): not of the user's own kernels, and not of CUB's.
#include <cstddef>
#include <cstdint>
#include <vector>

#include <weir/algorithm.hpp>
#include <weir/cuda.hpp>

#include "on_gpu.hpp"
#include "support/gate.hpp"

namespace weir_test {

__global__ void first_launched_beside_a_gate(int* x) { *x = 7; }

namespace {

struct Odd {
  WEIR_KERNEL bool operator()(int v) const { return v % 2 != 0; }
};

using Loading = OnGpu;

//  held:  [hold ............]
//  other:   [first launch]|     a kernel that nothing else in the process launches
TEST_F(Loading, a_kernel_of_the_users_own_runs_beside_one_that_runs) {
  weir::Stream held(device(), {.blocking = false}), other(device(), {.blocking = false});
  const auto x = weir::zeros<int>(other, 1);
  other.synchronize();
  Gate gate;
  gate.hold(held);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  weir::cuda::launch(other, 1, 1, 0, first_launched_beside_a_gate, weir::out(x));
  EXPECT_TRUE(eventually([&] { return other.done(); }));
  EXPECT_FALSE(gate.is_open());
  gate.open();
  EXPECT_EQ(x.to_host(other), std::vector<int>{7});
}

//  held:  [hold .......................]
//  other:   [select_if][sort by Greater]|    instances of CUB's kernels that nothing else in the process uses
TEST_F(Loading, an_algorithm_runs_beside_a_kernel_that_runs) {
  weir::Stream held(device(), {.blocking = false}), other(device(), {.blocking = false});
  std::vector<int> values(100'000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int>(i);
  const auto x = weir::from(other, values);
  const auto y = weir::zeros<int>(other, values.size());
  const auto count = weir::zeros<std::int64_t>(other, 1);
  other.synchronize();
  Gate gate;
  gate.hold(held);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  weir::select_if(other, x, y, count, Odd{});
  weir::sort(other, x, weir::Greater{});
  EXPECT_TRUE(eventually([&] { return other.done(); }));
  EXPECT_FALSE(gate.is_open());
  gate.open();
  EXPECT_EQ(count.to_host(other)[0], 50'000);
  EXPECT_EQ(y.to_host(other)[49'999], 99'999);
  EXPECT_EQ(x.to_host(other)[0], 99'999);
}

}  // namespace
}  // namespace weir_test
