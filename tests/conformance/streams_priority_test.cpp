// Priorities: a readable range, clamping, and pending work of a higher priority first.
#include <memory>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class StreamPriority : public AnyDevice {};
ON_EVERY_DEVICE(StreamPriority);

TEST_P(StreamPriority, R13_lower_numbers_are_higher_priorities) {
  const weir::PriorityRange range = device().properties().stream_priorities;
  EXPECT_LE(range.greatest, range.least);
  EXPECT_EQ(range.least, 0);
  if (on("cpu")) {
    EXPECT_EQ(range.greatest, -5);
  }
}

TEST_P(StreamPriority, R14_priorities_out_of_range_are_clamped) {
  const weir::PriorityRange range = device().properties().stream_priorities;
  EXPECT_EQ(weir::Stream(device(), {.priority = 1000}).priority(), range.least);
  EXPECT_EQ(weir::Stream(device(), {.priority = -1000}).priority(), range.greatest);
  for (int priority = range.greatest; priority <= range.least; ++priority) {
    EXPECT_EQ(weir::Stream(device(), {.priority = priority}).priority(), priority);
  }
  EXPECT_EQ(weir::Stream(device()).priority(), 0);
  EXPECT_EQ(weir::legacy_stream(device()).priority(), 0);
}

/// As many held kernels as the device runs at one time, each with its own gate.
class FullDevice {
 public:
  explicit FullDevice(weir::Device device) {
    const int places = device.properties().max_resident_kernels;
    for (int i = 0; i < places; ++i) {
      gates_.push_back(std::make_unique<Gate>());
      streams_.emplace_back(device, weir::StreamOptions{.blocking = false});
      gates_.back()->hold(streams_.back());
    }
  }
  bool full() const {
    for (const auto& gate : gates_) {
      if (gate->begun() == 0) return false;
    }
    return true;
  }
  void free_one_place() { gates_.front()->open(); }

 private:
  std::vector<std::unique_ptr<Gate>> gates_;
  std::vector<weir::Stream> streams_;
};

//  every place taken by [hold .......]; then, in this order of issue:
//  low:  [1][1][1]
//  mid:  [2][2][2]
//  high: [3][3][3]            one place becomes free: 3 3 3 2 2 2 1 1 1
TEST_P(StreamPriority, C14_R17_pending_work_of_a_higher_priority_runs_first) {
  if (!on("cpu")) GTEST_SKIP() << "a priority is a hint here: the device decides block by block";
  const weir::PriorityRange range = device().properties().stream_priorities;
  const int middle = (range.least + range.greatest) / 2;
  Log log;
  weir::Stream low(device(), {.priority = range.least, .blocking = false});
  weir::Stream mid(device(), {.priority = middle, .blocking = false});
  weir::Stream high(device(), {.priority = range.greatest, .blocking = false});
  FullDevice device_in_use(device());
  ASSERT_TRUE(eventually([&] { return device_in_use.full(); })) << "max_resident_kernels promises more than there is";
  for (int i = 0; i < 3; ++i) log.note(low, 1);
  for (int i = 0; i < 3; ++i) log.note(mid, 2);
  for (int i = 0; i < 3; ++i) log.note(high, 3);
  device_in_use.free_one_place();
  EXPECT_TRUE(eventually([&] { return log.size() == 9; }));
  EXPECT_EQ(log.values(), (std::vector<int>{3, 3, 3, 2, 2, 2, 1, 1, 1}));
}

//  low:  [hold ......]        a running kernel is not taken off the device, and a high one runs beside it
//  high: [mark]
TEST_P(StreamPriority, C14_a_high_priority_stream_does_not_wait_for_a_running_low_one) {
  const weir::PriorityRange range = device().properties().stream_priorities;
  Gate gate;
  Marker marker;
  weir::Stream low(device(), {.priority = range.least});
  weir::Stream high(device(), {.priority = range.greatest});
  gate.hold(low);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  mark(high, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  high: [hold ......]
//  low:  [mark]               and the other way round: nobody starves while there is room
TEST_P(StreamPriority, C14_a_low_priority_stream_runs_beside_a_held_high_one) {
  const weir::PriorityRange range = device().properties().stream_priorities;
  Gate gate;
  Marker marker;
  weir::Stream low(device(), {.priority = range.least});
  weir::Stream high(device(), {.priority = range.greatest});
  gate.hold(high);
  mark(low, marker);
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

}  // namespace
}  // namespace weir_test
