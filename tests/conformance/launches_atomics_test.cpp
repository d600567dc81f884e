// Atomic operations in kernels: no change of a place is lost, whatever the type.
#include <cstdint>
#include <limits>
#include <vector>

#include "support/any_device.hpp"

namespace weir_test {
namespace {

class LaunchAtomics : public AnyDevice {};
ON_EVERY_DEVICE(LaunchAtomics);

constexpr int n = 20'000;

/// place 0: the sum, 1: the least, 2: the greatest, 3: counted by exchanges of equals, 4: the last exchanged
template <class T>
struct Everything {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<T> x, weir::View<int> wrong) const {
    const T value = static_cast<T>(i % 100);
    weir::atomic_add(x[0], 1);
    weir::atomic_min(x[1], value);
    weir::atomic_max(x[2], value);
    T seen = T(0);  // a guess
    for (;;) {
      const T found = weir::atomic_compare_exchange(x[3], seen, static_cast<T>(seen + 1));
      if (found == seen) break;
      seen = found;
    }
    const T before = weir::atomic_exchange(x[4], value);
    const double number = static_cast<double>(before);  // of either sign, for any type
    if (number < 0 || number > 99) weir::atomic_add(wrong[0], 1);
  }
};

template <class T>
void try_all(weir::Device device) {
  weir::Stream s(device);
  auto x = weir::from(s, {T(0), T(1000), T(0), T(0), T(0)});
  auto wrong = weir::zeros<int>(s, 1);
  weir::launch(s, n, Everything<T>{}, weir::inout(x), weir::inout(wrong));
  const std::vector<T> found = x.to_host();
  EXPECT_EQ(found[0], T(n));
  EXPECT_EQ(found[1], T(0));
  EXPECT_EQ(found[2], T(99));
  EXPECT_EQ(found[3], T(n));
  EXPECT_EQ(wrong.to_host()[0], 0);
}

TEST_P(LaunchAtomics, of_every_type_lose_nothing) {
  try_all<std::int32_t>(device());
  try_all<std::uint32_t>(device());
  try_all<std::int64_t>(device());
  try_all<std::uint64_t>(device());
  try_all<float>(device());
  try_all<double>(device());
}

struct Extremes {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int64_t> x, weir::View<float> y) const {
    weir::atomic_min(x[0], std::int64_t{-5'000'000'000});
    weir::atomic_add(x[1], std::int64_t{-1});
    weir::atomic_min(y[0], -2.5f);
    weir::atomic_max(y[1], -2.5f);
  }
};

TEST_P(LaunchAtomics, take_negative_values) {
  weir::Stream s(device());
  auto x = weir::zeros<std::int64_t>(s, 2);
  auto y = weir::from(s, {0.0f, -7.0f});
  weir::launch(s, 100, Extremes{}, weir::inout(x), weir::inout(y));
  EXPECT_EQ(x.to_host(), (std::vector<std::int64_t>{-5'000'000'000, -100}));
  EXPECT_EQ(y.to_host(), (std::vector<float>{-2.5f, -2.5f}));
}

struct ReadClock {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<std::int64_t> times) const { times[i] = weir::device_clock(); }
};

TEST_P(LaunchAtomics, the_clock_of_a_device_never_goes_back_from_kernel_to_kernel) {
  weir::Stream s(device());
  auto first = weir::zeros<std::int64_t>(s, 1);
  auto second = weir::zeros<std::int64_t>(s, 1);
  weir::launch(s, 1, ReadClock{}, weir::out(first));
  weir::launch(s, 1, ReadClock{}, weir::out(second));
  const std::int64_t before = first.to_host()[0], after = second.to_host()[0];
  EXPECT_GT(before, 0);
  EXPECT_GE(after, before);
}

}  // namespace
}  // namespace weir_test
