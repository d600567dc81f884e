// Prefetch on a second stream, ordered by events, and what is asynchronous to the host.
#include <cstdint>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

struct SquareBatch {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const std::int64_t> x, weir::View<std::int64_t> y) const {
    y[i] = x[i] * x[i];
  }
};

/// Batches that travel through two buffers: one is copied while the other is computed on.
class Prefetch : public AnyDevice {
 protected:
  static constexpr std::size_t batches = 12, batch_size = 5000;

  void SetUp() override {
    for (std::size_t b = 0; b < batches; ++b) {
      from_.push_back(weir::empty<std::int64_t>(weir::pinned, batch_size));
      to_.push_back(weir::zeros<std::int64_t>(weir::pinned, batch_size));
      for (std::size_t i = 0; i < batch_size; ++i) from_[b][i] = static_cast<std::int64_t>(b * batch_size + i);
    }
  }
  void expect_squares() const {
    for (std::size_t b = 0; b < batches; ++b) {
      for (std::size_t i = 0; i < batch_size; ++i) {
        const auto v = static_cast<std::int64_t>(b * batch_size + i);
        ASSERT_EQ(to_[b][i], v * v) << "batch " << b << ", element " << i;
      }
    }
  }

  std::vector<weir::Array<std::int64_t>> from_, to_;
};
ON_EVERY_DEVICE(Prefetch);

//  load:    [copy 0]|c0 [copy 1]|c1          wait(u0)[copy 2]|c2 ...
//  compute:   wait(c0)[square 0][store 0]|u0 wait(c1)[square 1][store 1]|u1 ...
TEST_P(Prefetch, P1_batches_are_computed_right_whatever_overlaps) {
  weir::Stream load(device(), {.blocking = false}), compute(device(), {.blocking = false});
  weir::Event copied[2] = {weir::Event(device()), weir::Event(device())};
  weir::Event used[2] = {weir::Event(device()), weir::Event(device())};
  weir::Array<std::int64_t> in[2] = {weir::empty<std::int64_t>(load, batch_size),
                                     weir::empty<std::int64_t>(load, batch_size)};
  weir::Array<std::int64_t> out[2] = {weir::empty<std::int64_t>(compute, batch_size),
                                      weir::empty<std::int64_t>(compute, batch_size)};
  for (std::size_t b = 0; b < batches; ++b) {
    const std::size_t k = b % 2;
    load.wait(used[k]);
    weir::copy(load, in[k], from_[b]);
    load.record(copied[k]);
    compute.wait(copied[k]);
    weir::launch(compute, batch_size, SquareBatch{}, weir::in(in[k]), weir::out(out[k]));
    weir::copy(compute, to_[b], out[k]);
    compute.record(used[k]);
  }
  compute.synchronize();
  expect_squares();
}

//  compute: wait(c0) [hold ......][square 0]
//  load:    [copy 0]|c0 [copy 1]|c1             batch 1 arrives while batch 0 is still being computed on
TEST_P(Prefetch, P1_the_next_batch_is_copied_while_this_one_is_computed_on) {
  Gate gate;
  weir::Stream load(device(), {.blocking = false}), compute(device(), {.blocking = false});
  auto first = weir::empty<std::int64_t>(load, batch_size);
  auto second = weir::empty<std::int64_t>(load, batch_size);
  weir::copy(load, first, from_[0]);
  compute.wait(load.record());
  gate.hold(compute);
  weir::copy(load, second, from_[1]);
  const weir::Event arrived = load.record();
  EXPECT_TRUE(eventually([&] { return arrived.done(); }));
  EXPECT_FALSE(compute.done());
  gate.open();
  compute.synchronize();
}

//  s: [hold ......] and behind it everything that is asynchronous to the host
TEST_P(Prefetch, C2_C10_launches_copies_fills_and_creations_return_while_the_device_is_busy) {
  Gate gate;
  Marker marker;
  weir::Stream s(device());
  auto x = weir::empty<std::int64_t>(s, batch_size);
  auto y = weir::empty<std::int64_t>(s, batch_size);
  const std::vector<std::int64_t> pageable(batch_size, 7);  // 40 kB: at most 64 KiB
  gate.hold(s);
  const auto returns = [&](const char* name, auto&& call) { EXPECT_TRUE(returns_while_held(gate, call)) << name; };
  returns("launch", [&] { mark(s, marker); });
  returns("copy inside the device", [&] { weir::copy(s, y, x); });
  returns("copy from pinned", [&] { weir::copy(s, x, from_[0]); });
  returns("copy to pinned", [&] { weir::copy(s, to_[0], x); });
  returns("copy from at most 64 KiB of pageable memory", [&] { weir::copy(s, x, pageable); });
  returns("fill", [&] { weir::fill(s, x, std::int64_t{3}); });
  returns("creation", [&] { (void)weir::zeros<std::int64_t>(s, batch_size); });
  returns("pinned allocation", [&] { (void)weir::empty<std::int64_t>(weir::pinned, batch_size); });
  returns("legacy launch", [&] { mark(weir::legacy_stream(device()), marker); });
  returns("host function", [&] { weir::host_call(s, [] {}); });
  EXPECT_FALSE(gate.is_open());
  gate.open();
  device().synchronize();
}

}  // namespace
}  // namespace weir_test
