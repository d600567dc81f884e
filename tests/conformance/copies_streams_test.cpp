// Which stream a call without one uses, and that a given one wins (W16, W17).
#include <mutex>
#include <type_traits>

#include "arrays_support.hpp"

using namespace weir_test;

namespace {

/// The streams of the copies, fills and launches that were submitted while it is attached.
class Streams : public weir::Observer {
 public:
  Streams() { weir::attach(*this); }
  ~Streams() override { weir::detach(*this); }
  void submitted(const weir::Command& command) override {
    const bool counts = std::holds_alternative<weir::Copy>(command.op) ||
                        std::holds_alternative<weir::Fill>(command.op) ||
                        std::holds_alternative<weir::Launch>(command.op);
    if (!counts) return;
    const std::lock_guard lock(mutex_);
    seen_.push_back(command.stream);
  }
  /// Of the commands since the last call.
  std::vector<weir::StreamId> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(seen_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<weir::StreamId> seen_;
};

std::vector<weir::StreamId> only(weir::StreamRef stream) { return {stream.id()}; }

}  // namespace

class ChosenStream : public AnyDevice {};
ON_EVERY_DEVICE(ChosenStream);

TEST_P(ChosenStream, of_a_copy_to_a_device_is_the_current_one_of_the_destination) {
  weir::Stream current(device(), {.name = "current"});
  const auto pinned = weir::from(weir::pinned, counted(10));
  auto array = weir::zeros<int>(device(), 10);
  const auto twin = weir::zeros<int>(device(), 10);
  const std::vector<int> values(10);
  Streams streams;
  weir::copy(array, pinned);
  EXPECT_EQ(streams.take(), only(weir::get_stream(device())));
  const weir::ScopedStream scope(current);
  for (auto copy : {+[](weir::Array<int>&a, const weir::Array<int>&b, const weir::Array<int>&,
                        const std::vector<int>&) { weir::copy(a, b); },
                    +[](weir::Array<int>&a, const weir::Array<int>&, const weir::Array<int>&c,
                        const std::vector<int>&) { weir::copy(a, c); },
                    +[](weir::Array<int>&a, const weir::Array<int>&, const weir::Array<int>&,
                        const std::vector<int>&d) { weir::copy(a, d); }}) {
    copy(array, pinned, twin, values);
    EXPECT_EQ(streams.take(), only(current));
  }
}

TEST_P(ChosenStream, of_a_copy_to_the_host_is_the_current_one_of_the_source) {
  weir::Stream current(device(), {.name = "current"});
  const weir::ScopedStream scope(current);
  const auto array = weir::from(device(), counted(10));
  auto pinned = weir::zeros<int>(weir::pinned, 10);
  std::vector<int> values(10);
  Streams streams;
  weir::copy(pinned, array);
  EXPECT_EQ(streams.take(), only(current));
  weir::copy(values, array);
  EXPECT_EQ(streams.take(), only(current));
  EXPECT_EQ(values, counted(10));
}

TEST_P(ChosenStream, of_a_copy_on_the_host_is_the_current_one_of_the_default_device) {
  weir::Stream current(device(), {.name = "current"});
  const weir::ScopedStream scope(current);
  const auto from = weir::from(weir::pinned, counted(10));
  auto to = weir::zeros<int>(weir::pinned, 10);
  Streams streams;
  weir::copy(to, from);
  EXPECT_EQ(streams.take(), only(current));
  current.synchronize();
  EXPECT_EQ(host_values(to), counted(10));
}

TEST_P(ChosenStream, is_the_given_one_whatever_is_current) {
  weir::Stream current(device(), {.name = "current"});
  weir::Stream given(device(), {.name = "given"});
  auto a = weir::zeros<int>(given, 10);
  const auto b = weir::zeros<int>(given, 10);
  const weir::ScopedStream scope(current);
  Streams streams;
  weir::copy(given, a, b);
  weir::fill(given, a, 1);
  weir::launch(given, 10, AddValue{}, weir::inout(a), 1);
  EXPECT_EQ(streams.take(), (std::vector<weir::StreamId>{given.id(), given.id(), given.id()}));
}

TEST_P(ChosenStream, of_a_launch_is_the_current_one_of_its_device_or_of_the_default_device) {
  weir::Stream current(device(), {.name = "current"});
  const weir::ScopedStream scope(current);
  auto a = weir::zeros<int>(10);
  Streams streams;
  weir::launch(device(), 10, AddValue{}, weir::inout(a), 1);
  weir::launch(10, AddValue{}, weir::inout(a), 1);
  weir::fill(a, 1);
  EXPECT_EQ(streams.take(), (std::vector<weir::StreamId>{current.id(), current.id(), current.id()}));
}

// current: [hold]-------------
// given:         [pinned -> a]     not held back by the current stream
TEST_P(ChosenStream, that_is_given_does_not_wait_for_the_current_one) {
  weir::Stream current = free_stream(device(), "current");
  weir::Stream given = free_stream(device(), "given");
  auto a = weir::zeros<int>(given, 100);
  const auto source = weir::from(weir::pinned, counted(100));
  given.synchronize();
  const weir::ScopedStream scope(current);
  Gate gate;
  gate.hold(current);
  weir::copy(given, a, source);
  EXPECT_TRUE(returns_while_held(gate, [&] { given.synchronize(); }));
  gate.open();
  EXPECT_EQ(read(given, a), counted(100));
}

class ChosenStreamOfTwoDevices : public TwoDevices {};
ON_EVERY_BACKEND(ChosenStreamOfTwoDevices);

TEST_P(ChosenStreamOfTwoDevices, of_a_copy_between_devices_is_the_current_one_of_the_destination) {
  const weir::ScopedDevice scope(first());
  auto a = weir::zeros<int>(first(), 10);
  auto b = weir::zeros<int>(second(), 10);
  weir::synchronize();
  Streams streams;
  weir::copy(b, a);
  EXPECT_EQ(streams.take(), only(weir::get_stream(second())));
  weir::synchronize();
  weir::synchronize();
  weir::copy(a, b);
  EXPECT_EQ(streams.take(), only(weir::get_stream(first())));
}

TEST_P(ChosenStreamOfTwoDevices, is_that_of_the_arrays_device_not_of_the_default_one) {
  const weir::ScopedDevice scope(first());
  auto b = weir::zeros<int>(second(), 10);
  const auto pinned = weir::from(weir::pinned, counted(10));
  auto back = weir::zeros<int>(weir::pinned, 10);
  Streams streams;
  weir::copy(b, pinned);
  weir::copy(back, b);
  weir::fill(b, 1);
  const weir::StreamId id = weir::get_stream(second()).id();
  EXPECT_EQ(streams.take(), (std::vector<weir::StreamId>{id, id, id}));
}

TEST_P(ChosenStreamOfTwoDevices, of_a_copy_may_be_of_any_device) {
  weir::Stream stream(first());
  auto a = weir::from(second(), counted(10));
  auto b = weir::zeros<int>(second(), 10);
  weir::synchronize();
  weir::copy(stream, b, a);
  stream.synchronize();
  EXPECT_EQ(b.to_host(), counted(10));
}
