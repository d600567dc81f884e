// What a device makes of a kernel: weir::kernel_info.
#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

class KernelInfos : public AnyDevice {};
ON_EVERY_DEVICE(KernelInfos);

struct Axpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};
struct Fill {
  WEIR_KERNEL void operator()(const weir::Index<2>& index, weir::View<float, 2> x) const { x[index] = 1; }
};
struct Set {
  template <class V>
  WEIR_KERNEL void operator()(std::size_t i, V view) const {
    view[i] = 1;
  }
};
struct SumOfBlock {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const double> x, weir::View<double> sums) const {
    const double sum = block.reduce([&](std::size_t t) { return x[block.global_index(t)]; });
    block.each([&](std::size_t t) {
      if (t == 0) sums[block.index()] = sum;
    });
  }
};

TEST_P(KernelInfos, tell_what_a_launch_may_ask_for) {
  const weir::DeviceProperties& device_has = device().properties();
  for (const weir::KernelInfo& info : {weir::kernel_info(device(), Axpy{}), weir::kernel_info(device(), Fill{}),
                                       weir::kernel_info(device(), SumOfBlock{})}) {
    EXPECT_GE(info.max_threads, 1u) << info.name();
    EXPECT_LE(info.max_threads, device_has.max_threads_per_block) << info.name();
    EXPECT_GE(info.blocks_per_multiprocessor(32), 1u) << info.name();
    EXPECT_GE(info.blocks_per_multiprocessor(1), info.blocks_per_multiprocessor(info.max_threads)) << info.name();
    EXPECT_GT(info.occupancy(128), 0.0) << info.name();
    EXPECT_LE(info.occupancy(128), 1.0) << info.name();
  }
  const auto blocks = weir::kernel_info(device(), SumOfBlock{});
  EXPECT_NE(blocks.name().find("SumOfBlock"), std::string_view::npos);
  EXPECT_LE(blocks.max_shared_bytes + blocks.shared_bytes, device_has.max_shared_bytes_per_block);
  EXPECT_GE(blocks.max_shared_bytes, std::size_t{1} << 14);
  EXPECT_GE(blocks.blocks_per_multiprocessor(128), blocks.blocks_per_multiprocessor(128, blocks.max_shared_bytes));
}

TEST_P(KernelInfos, are_those_of_the_backend) {
  const auto info = weir::kernel_info(device(), Axpy{});
  if (on("cuda")) {
    EXPECT_GT(info.registers, 0);
    EXPECT_GE(info.usual_threads, 32u);
    EXPECT_GT(info.threads_per_multiprocessor, 0u);
  } else if (on("sim")) {
    EXPECT_EQ(info.registers, 0);
    EXPECT_GE(info.threads_per_multiprocessor, info.max_threads);
    EXPECT_EQ(info.blocks_per_multiprocessor(info.max_threads), info.threads_per_multiprocessor / info.max_threads);
  } else {
    // A worker runs one block at a time, whatever its size.
    EXPECT_EQ(info.registers, 0);
    EXPECT_EQ(info.blocks_per_multiprocessor(1), 1u);
    EXPECT_EQ(info.blocks_per_multiprocessor(info.max_threads), 1u);
    EXPECT_EQ(info.occupancy(1), 1.0);
  }
}

TEST_P(KernelInfos, with_arguments_are_those_of_that_launch) {
  weir::Stream s(device());
  const auto x = weir::ones<float>(s, 8);
  auto y = weir::zeros<float>(s, 8);
  const auto axpy = weir::kernel_info(device(), Axpy{}, 2.0f, weir::in(x), weir::inout(y));
  EXPECT_EQ(axpy.max_threads, weir::kernel_info(device(), Axpy{}).max_threads);
  // The types of an `auto` parameter are those of the argument.
  const auto any = weir::kernel_info(device(), Set{}, weir::out(y));
  EXPECT_GE(any.max_threads, 1u);
  EXPECT_EQ(y.to_host(), std::vector<float>(8, 0.0f)) << "nothing was launched";
}

TEST_P(KernelInfos, refuse_sizes_that_no_launch_may_have) {
  const auto info = weir::kernel_info(device(), SumOfBlock{});
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { (void)info.blocks_per_multiprocessor(0); },
                         {"blocks_per_multiprocessor", "SumOfBlock", "0 threads"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { (void)info.occupancy(info.max_threads + 1); },
                         {"occupancy", "SumOfBlock", "threads"}));
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { (void)info.occupancy(32, info.max_shared_bytes + 1); },
                         {"occupancy", "SumOfBlock", "shared memory"}));
}

TEST_P(KernelInfos, are_refused_for_kernels_without_code_for_the_device) {
  if (!on("cuda")) GTEST_SKIP() << "the host runs them all";
  EXPECT_TRUE(fails_with(weir::Errc::not_supported,
                         [&] { (void)weir::kernel_info(device(), weir::host_only([](std::size_t) {})); },
                         {"weir::kernel_info", "no GPU code"}));
}

}  // namespace
}  // namespace weir_test
