// A call, made with every one of its allocations failing in turn.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <weir/weir.hpp>

#include "injector.hpp"
#include "support/watchdog.hpp"

namespace weir_test {

/// Something that the library owns for a time: as many must be destroyed as were made.
class Counted {
 public:
  Counted() { ++alive; }
  Counted(const Counted&) { ++alive; }
  ~Counted() { --alive; }
  Counted& operator=(const Counted&) = default;
  inline static std::atomic<int> alive{0};
};

struct Set {
  void operator()(std::size_t i, weir::View<int> x, int value) const { x[i] = value; }
};

/// Whether everything of a device works, with nothing left of what was before.
inline testing::AssertionResult works(weir::Device device) {
  try {
    device.synchronize();
    weir::legacy_stream(device).synchronize();
    const weir::Stream s(device, {.blocking = false}), t(device);
    auto x = weir::zeros<int>(s, 8);
    weir::launch(s, 8, Set{}, weir::out(x), 1);
    t.wait(s);
    weir::launch(t, 4, Set{}, weir::out(x), 2);
    const weir::Event e = t.record();
    weir::legacy_stream(device).wait(e);
    if (x.to_host() != std::vector<int>{2, 2, 2, 2, 1, 1, 1, 1}) return testing::AssertionFailure() << "wrong values";
    if (weir::is_capturing(s)) return testing::AssertionFailure() << "a new stream is capturing";
    weir::Graph graph = weir::capture(s, [&] { weir::launch(s, 8, Set{}, weir::out(x), 3); });
    graph.launch(s);
    s.synchronize();
    device.synchronize();
    if (x.to_host() != std::vector<int>(8, 3)) return testing::AssertionFailure() << "wrong values of a graph";
  } catch (const std::exception& error) {
    return testing::AssertionFailure() << error.what();
  }
  return testing::AssertionSuccess();
}

/// Calls `call` with its n-th allocation failing, for every n. Each time it either does what it should or says that there
/// is no memory; afterwards the library works, and nothing is leaked.
template <class Call>
void with_every_allocation_failing(Call&& call, Whose whose = Whose::this_thread) {
  const weir::Device device = weir::device("cpu");
  const auto attempt = [&](std::int64_t n) {
    fail_allocation(whose, n);
    try {
      call();
      return stop_failing();
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(stop_failing()) << "bad_alloc, although nothing failed";
    } catch (const weir::Error& error) {
      EXPECT_TRUE(stop_failing()) << error.what();
      EXPECT_EQ(error.errc(), weir::Errc::out_of_memory) << error.what();
    }
    return true;
  };
  constexpr int rounds = 10;  // more than the library keeps of anything that it forgets in time
  for (int i = 0; i < rounds; ++i) call();
  constexpr std::int64_t most = 5000;
  for (std::int64_t n = 0; n < most; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    const bool failed = attempt(n);
    ASSERT_TRUE(works(device));
    ASSERT_EQ(Counted::alive.load(), 0);
    if (!failed) return;
    // What the library keeps for use again is there in the end; a leak grows with each turn.
    std::int64_t before = live_blocks();
    bool grew = true;
    for (int i = 0; i < rounds && grew; ++i) {
      attempt(n);
      ASSERT_TRUE(works(device));
      // Workers give back what they are through with a moment later.
      for (int i = 0; i < 50 && live_blocks() > before; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      grew = live_blocks() > before;
      before = live_blocks();
    }
    ASSERT_FALSE(grew) << "each turn leaves something allocated";
    if (testing::Test::HasFailure()) return;
  }
  FAIL() << "more allocations than " << most;
}

}  // namespace weir_test
