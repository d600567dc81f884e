// The program of README.md, as it stands there: scripts/check_claims compares the two.
#include <gtest/gtest.h>

#include <weir/weir.hpp>

namespace {

struct Saxpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};

int main() {
  weir::Device device = weir::default_device();
  weir::Stream compute(device, {.name = "compute"});
  weir::Stream transfer(device, {.name = "transfer"});

  const std::size_t n = 1 << 20;
  auto host = weir::full(weir::pinned, n, 1.0f);  // pinned: copies from it are asynchronous
  auto x = weir::empty<float>(transfer, n);       // belongs to `transfer` from here on
  auto y = weir::zeros<float>(compute, n);

  weir::copy(transfer, x, host);  // returns at once
  compute.wait(transfer);         // the wait that people forget
  weir::launch(compute, n, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));

  return y.to_host()[0] == 2.0f ? 0 : 1;  // waits for all streams that were given y
}

TEST(PageOfReadme, program_ends_with_0) {
  const weir::ScopedDevice scope(weir::device("cpu"));
  EXPECT_EQ(main(), 0);
}

}  // namespace
