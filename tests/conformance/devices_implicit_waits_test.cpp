// The implicit-synchronisation list of old GPUs (C10), call by call: what waits for running work and what does not.
//
//   call                              on an H200       here
//   pinned allocation            R57  returns          returns
//   device allocation            R55  returns          returns
//   device memory given back     R56  waits            returns: it is stream-ordered, as R65
//   pinned memory given back     R58  waits            returns (pinned_*)
//   pin / unpin                  R59  returns / waits  the same (pinned_*)
//   streams and events           R60  returns          returns
//   properties, queries          R62  returns          returns
//   pools                        R64  returns          returns (pools_*)
//   a kernel's first launch      R66, R67 returns      returns, and runs
//   device fill, device copy     R43, R32 returns      returns; ordered as legacy work
// Left out, for they are the CUDA API's own: R61 (managed memory), R63 (device limits), the L1 / shared memory switch.
#include <functional>

#include "arrays_support.hpp"

using namespace weir_test;

namespace {

struct FirstSeenHere {
  WEIR_KERNEL void operator()(std::size_t, int* word) const { store_word(word, 1); }
};

}  // namespace

class ImplicitWaits : public AnyDevice {
 protected:
  /// Makes the calls while a kernel runs in a blocking stream, then in a non-blocking one.
  template <class Calls>
  void expect_no_waiting(Calls&& calls) {
    for (bool blocking : {true, false}) {
      weir::Stream held(device(), {.blocking = blocking, .name = "held"});
      Gate gate;
      gate.hold(held);
      ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
      EXPECT_TRUE(returns_while_held(gate, calls)) << (blocking ? "blocking stream" : "non-blocking stream");
      EXPECT_FALSE(held.done());
    }
  }
};
ON_EVERY_DEVICE(ImplicitWaits);

TEST_P(ImplicitWaits, making_arrays_in_device_memory) {
  weir::Stream other(device());
  expect_no_waiting([&] {
    const auto small = weir::empty<char>(other, 4096);
    const auto large = weir::empty<char>(other, std::size_t{256} << 20);
  });
}

TEST_P(ImplicitWaits, making_arrays_in_pinned_memory) {
  expect_no_waiting([&] {
    static std::vector<weir::Array<char>> kept;  // given back later: a GPU's driver waits there (R58)
    kept.push_back(weir::empty<char>(weir::pinned, 4096));
    kept.push_back(weir::empty<char>(weir::pinned, std::size_t{8} << 20));
  });
}

TEST_P(ImplicitWaits, giving_device_memory_back) {
  weir::Stream other(device());
  std::vector<weir::Array<char>> arrays;
  for (int i = 0; i < 4; ++i) arrays.push_back(weir::empty<char>(other, std::size_t{4} << 20));
  expect_no_waiting([&] { arrays.pop_back(); });
}

// R60
TEST_P(ImplicitWaits, making_and_ending_streams_and_events) {
  weir::Stream idle(device());
  expect_no_waiting([&] {
    {
      weir::Stream stream(device());
      weir::Event event(device());
      weir::TimedEvent timed(device());
      weir::Stream free = free_stream(device(), "free");
      free.record(event);
    }
    weir::Stream moved = std::move(idle);
    idle = weir::Stream(device());
  });
}

// R62
TEST_P(ImplicitWaits, asking) {
  weir::Stream other = free_stream(device(), "other");
  const auto array = weir::zeros<int>(other, 100);
  const weir::Event event = other.record();
  expect_no_waiting([&] {
    (void)device().properties();
    (void)weir::devices();
    (void)weir::get_stream(device());
    (void)weir::pointer_info(array.data());
    (void)weir::default_pool(device()).statistics();
    (void)other.done();
    (void)event.done();
    (void)weir::legacy_stream(device()).done();
    (void)other.priority();
  });
}

// R66, R67:   held:  [hold]
//             other:       [a kernel that was never launched before]
TEST_P(ImplicitWaits, the_first_launch_of_a_kernel) {
  weir::Stream held = free_stream(device(), "held");
  weir::Stream other = free_stream(device(), "other");
  Marker ran;
  Gate gate;
  gate.hold(held);
  ASSERT_TRUE(eventually([&] { return gate.begun() == 1; }));
  EXPECT_TRUE(returns_while_held(gate, [&] { weir::launch(other, 1, FirstSeenHere{}, ran.word()); }));
  EXPECT_TRUE(eventually([&] { return ran.value() == 1; }));
}

// C10:   a: [hold]------------------------
//        legacy:       [x = 1]                 one legacy command between two streams orders them
//        b:                    [mark]
//        free:  [mark]                         but not a non-blocking one
TEST_P(ImplicitWaits, a_legacy_command_between_two_streams_orders_them) {
  const weir::StreamRef legacy = weir::legacy_stream(device());
  auto x = weir::zeros<int>(legacy, 100);
  auto y = weir::zeros<int>(legacy, 100);
  legacy.synchronize();
  const std::vector<std::function<void()>> commands = {
      [&] { weir::fill(legacy, x, 1); },
      [&] { weir::copy(legacy, y, x); },
      [&] { weir::launch(legacy, 100, AddValue{}, weir::inout(x), 1); },
      [&] { weir::host_call(legacy, [] {}); },
  };
  for (const auto& command : commands) {
    weir::Stream a(device(), {.name = "a"});
    weir::Stream b(device(), {.name = "b"});
    weir::Stream free = free_stream(device(), "free");
    Marker of_b, of_free;
    Gate gate;
    gate.hold(a);
    EXPECT_TRUE(returns_while_held(gate, [&] { command(); }));
    mark(b, of_b);
    mark(free, of_free);
    EXPECT_TRUE(eventually([&] { return of_free.value() == 1; }));
    EXPECT_TRUE(stays(device(), [&] { return of_b.value() == 0; }));
    gate.open();
    EXPECT_TRUE(eventually([&] { return of_b.value() == 1; }));
  }
}
