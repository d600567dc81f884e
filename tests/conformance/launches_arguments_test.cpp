// What a kernel is given: values as they were at the call, arrays as in, out and inout, and itself as a copy.
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class LaunchArguments : public AnyDevice {};
ON_EVERY_DEVICE(LaunchArguments);

struct Saxpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};

TEST_P(LaunchArguments, arrays_are_passed_as_in_and_inout) {
  weir::Stream s(device());
  auto x = weir::full<float>(s, 1000, 3.0f);
  auto y = weir::full<float>(s, 1000, 1.0f);
  weir::launch(s, 1000, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
  EXPECT_EQ(y.to_host(), std::vector<float>(1000, 7.0f));
}

TEST_P(LaunchArguments, a_const_array_alone_means_in) {
  weir::Stream s(device());
  const auto x = weir::full<float>(s, 1000, 3.0f);
  auto y = weir::full<float>(s, 1000, 1.0f);
  weir::launch(s, 1000, Saxpy{}, 2.0f, x, weir::inout(y));
  EXPECT_EQ(y.to_host(), std::vector<float>(1000, 7.0f));
}

TEST_P(LaunchArguments, slices_and_views_are_arguments_too) {
  weir::Stream s(device());
  auto x = weir::full<float>(s, 1000, 3.0f);
  auto y = weir::full<float>(s, 1000, 1.0f);
  weir::launch(s, 100, Saxpy{}, 2.0f, weir::in(x.slice(100, 200)), weir::inout(y.slice(900, 1000)));
  weir::launch(s, 100, Saxpy{}, 2.0f, weir::in(x.view<1>()), weir::inout(y.view<1>().slice(0, 100)));
  const std::vector<float> values = y.to_host();
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(values[i], i < 100 || i >= 900 ? 7.0f : 1.0f) << i;
}

//  s: [hold ......][kernel with value 5]      the variable is changed meanwhile
TEST_P(LaunchArguments, values_are_taken_at_the_call) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  gate.hold(s);
  int value = 5;
  weir::launch(s, 1, WriteMark{}, marker.word(), value);
  value = 6;
  gate.open();
  s.synchronize();
  EXPECT_EQ(marker.value(), 5);
}

struct WriteMember {
  int value;
  WEIR_KERNEL void operator()(std::size_t, int* word) const { store_word(word, value); }
};

//  s: [hold ......][functor with value 5]
TEST_P(LaunchArguments, the_functor_is_copied_at_the_call) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  WriteMember kernel{5};
  gate.hold(s);
  weir::launch(s, 1, kernel, marker.word());
  kernel.value = 6;
  gate.open();
  s.synchronize();
  EXPECT_EQ(marker.value(), 5);
}

struct Large {
  std::array<int, 512> values;
};
struct SumLarge {
  WEIR_KERNEL void operator()(std::size_t, Large a, char b, double c, int* word) const {
    int sum = b + static_cast<int>(c);
    for (std::size_t i = 0; i < 512; ++i) sum += a.values[i];
    store_word(word, sum);
  }
};

//  s: [hold ......][2 KiB of arguments] x 100
TEST_P(LaunchArguments, arguments_of_any_size_and_alignment_arrive) {
  Gate gate;
  Marker sums(100);
  weir::Stream s(device());
  gate.hold(s);
  for (int round = 0; round < 100; ++round) {
    Large large;
    large.values.fill(round);
    weir::launch(s, 1, SumLarge{}, large, static_cast<char>(1), 2.5, sums.word(static_cast<std::size_t>(round)));
  }
  gate.open();
  s.synchronize();
  for (int round = 0; round < 100; ++round) ASSERT_EQ(sums.value(static_cast<std::size_t>(round)), 512 * round + 3);
}

struct alignas(64) Aligned {
  std::int64_t value;
};
struct CheckAlignment {
  WEIR_KERNEL void operator()(std::size_t, Aligned a, int* word) const {
    const bool aligned = reinterpret_cast<std::uintptr_t>(&a) % 64 == 0;
    store_word(word, aligned ? static_cast<int>(a.value) : -1);
  }
};
TEST_P(LaunchArguments, over_aligned_arguments_stay_aligned) {
  Marker marker;
  weir::Stream s(device());
  for (int round = 1; round < 50; ++round) {
    weir::launch(s, 1, CheckAlignment{}, Aligned{round}, marker.word());
    s.synchronize();
    ASSERT_EQ(marker.value(), round);
  }
}

/// Kernels that own something: on the CPU only, where a kernel need not be bytes.
class HostKernels : public testing::Test {
 protected:
  weir::Device cpu_ = weir::device("cpu");
};

struct Owner {
  std::shared_ptr<std::vector<int>> values;
  void operator()(std::size_t i) const { add_to_word(&(*values)[i], 1); }
};

//  s: [hold ......][kernel that owns a vector]
TEST_F(HostKernels, a_kernel_that_owns_something_is_copied_and_destroyed_with_its_launch) {
  Gate gate;
  weir::Stream s(cpu_);
  const auto values = std::make_shared<std::vector<int>>(10'000);
  gate.hold(s);
  for (int round = 0; round < 10; ++round) weir::launch(s, 10'000, weir::host_only(Owner{values}));
  EXPECT_EQ(values.use_count(), 11);
  gate.open();
  s.synchronize();
  EXPECT_TRUE(eventually([&] { return values.use_count() == 1; }));
  EXPECT_EQ(*values, std::vector<int>(10'000, 10));
}

TEST_F(HostKernels, lambdas_capture_what_they_need) {
  weir::Stream s(cpu_);
  auto x = weir::zeros<int>(s, 1000);
  const int offset = 7;
  weir::launch(s, 1000, weir::host_only([=](std::size_t i, weir::View<int> v) { v[i] = static_cast<int>(i) + offset; }),
               weir::out(x));
  EXPECT_EQ(x.to_host()[999], 1006);
}

TEST_F(HostKernels, generic_lambdas_are_kernels) {
  weir::Stream s(cpu_);
  auto x = weir::full<float>(s, 100, 1.5f);
  auto y = weir::full<std::int64_t>(s, {4, 5}, std::int64_t{3});
  weir::launch(s, 100, weir::host_only([](std::size_t i, auto v, auto by) { v[i] *= by; }), weir::inout(x), 2.0f);
  weir::launch(s, {4, 5},
               weir::host_only([](weir::Index<2> i, auto v) { v[i] += static_cast<std::int64_t>(10 * i[0] + i[1]); }),
               weir::inout(y));
  EXPECT_EQ(x.to_host(), std::vector<float>(100, 3.0f));
  EXPECT_EQ(y.to_host()[19], 3 + 34);
}

void write_nine(std::size_t i, weir::View<int> x) { x[i] = 9; }

TEST_F(HostKernels, functions_are_kernels) {
  weir::Stream s(cpu_);
  auto x = weir::zeros<int>(s, 100);
  weir::launch(s, 100, &write_nine, weir::out(x));
  weir::launch(s, 50, write_nine, weir::out(x));
  EXPECT_EQ(x.to_host(), std::vector<int>(100, 9));
}

}  // namespace
}  // namespace weir_test
