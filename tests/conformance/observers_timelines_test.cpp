// Timelines say what came first, whatever clocks a device has: on GPUs host functions are by the host's clock, kernels by the device's,
// copies by the driver's, and records and waits have no moments of their own.
#include <chrono>
#include <vector>

#include <weir/trace.hpp>

#include "support/any_device.hpp"

namespace weir_test {
namespace {

class ObservedTimelines : public AnyDevice {};
ON_EVERY_DEVICE(ObservedTimelines);

struct AddOneToEach {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1; }
};

//  a: [host function, 2 ms] [copy]|e     b: wait(e) [kernel]     four times
TEST_P(ObservedTimelines, have_nothing_that_begins_before_what_it_waits_for_has_ended) {
  if (device().backend() == "sim") GTEST_SKIP() << "host functions take as long as they are said to";
  constexpr std::size_t n = 1 << 20;
  const weir::Stream a(device());
  const weir::Stream b(device());
  const auto from = weir::full<int>(weir::pinned, n, 1);
  const auto x = weir::zeros<int>(a, n);
  device().synchronize();
  weir::trace::Session session;
  for (int i = 0; i < 4; ++i) {
    weir::host_call(a, [] {
      const auto late = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (std::chrono::steady_clock::now() < late) {
      }
    });
    weir::copy(a, x, from);
    b.wait(a.record());
    weir::launch(b, n, AddOneToEach{}, weir::inout(x));
    a.wait(b.record());
  }
  device().synchronize();
  const weir::trace::Timeline timeline = session.stop();
  std::size_t compared = 0;
  for (const weir::trace::Command& command : timeline.commands) {
    ASSERT_EQ(command.state, weir::trace::State::ran) << timeline.name_of(command);
    for (const weir::trace::Dependency& on : timeline.dependencies_of(command)) {
      const weir::trace::Command& before = timeline.commands[on.command];
      // The clocks are asked with less than half a millisecond's error, whatever the machine does.
      EXPECT_GE(command.begin + 500'000, before.end)
          << timeline.name_of(command) << " behind " << timeline.name_of(before);
      ++compared;
    }
  }
  EXPECT_GE(compared, 4 * 5u);
}

}  // namespace
}  // namespace weir_test
