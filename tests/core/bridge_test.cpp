// The way across backends, taken between CPU devices and within one: what conformance/events_backends_test.cpp tests where
// there is a second backend, and what it costs.
#include <malloc.h>

#include <vector>

#include "core/runtime.hpp"
#include "core/streams/bridge.hpp"
#include "support/child.hpp"
#include "support/waits_across.hpp"

namespace weir_test {
namespace {

void wait_by_the_bridge(weir::StreamRef stream, weir::EventRef event) {
  weir::detail::wait_across(stream, event, weir::SourceLocation::current());
}

std::vector<Across> pairs_of_cpus() {
  const std::vector<weir::Device> cpus = weir::devices("cpu");
  std::vector<Across> pairs = {{cpus.front(), cpus.front(), &wait_by_the_bridge}};
  if (cpus.size() > 1) {
    pairs.push_back({cpus[0], cpus[1], &wait_by_the_bridge});
    pairs.push_back({cpus[1], cpus[0], &wait_by_the_bridge});
  }
  return pairs;
}

//  a and b take turns, over and over
TEST_P(WaitsAcross, a_wait_leaves_nothing_behind) {
  const weir::Stream a(recording()), b(waiting());
  weir::Event e(recording()), f(waiting());
  const auto hop = [&](int times) {
    for (int i = 0; i < times; ++i) {
      weir::host_call(a, [] {});
      a.record(e);
      wait(b, e);
      weir::host_call(b, [] {});
      b.record(f);
      wait(a, f);
      if (i % 100 == 0) a.synchronize();
    }
    a.synchronize();
    b.synchronize();
  };
  hop(2000);
  const std::size_t before = mallinfo2().uordblks;
  hop(20'000);
  const std::size_t after = mallinfo2().uordblks;
  EXPECT_LT(after, before + 256 * 1024);  // 6 bytes a wait: chunks and the allocator's own
}

//  a: [hold ......]
//  b:  follow(a) [mark]         a is destroyed; its failure is no concern of b
TEST_P(WaitsAcross, a_queue_follows_another_whose_owner_may_be_gone) {
  Gate gate;
  Marker marker;
  weir::Stream b(waiting());
  {
    weir::Stream a(recording());
    gate.hold(a);
    fail(a);
    const weir::detail::StreamState& state = *a.state();
    weir::detail::follow_across(*b.state()->queue, *state.real, a.id(), *state.device, {});
  }
  mark(b, marker);
  EXPECT_TRUE(stays(waiting(), [&] { return marker.value() == 0; }));
  gate.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_THROW(recording().synchronize(), weir::Error);
}

WEIR_SCENE(waits_across_are_pending) {
  for (const Across& across : pairs_of_cpus()) leave_waits_pending(across);
}

TEST(Bridge, a_process_ends_with_waits_pending) {
  for (int round = 0; round < 5; ++round) ASSERT_TRUE(ended_well(play("waits_across_are_pending")));
}

}  // namespace

WAITS_ACROSS(pairs_of_cpus());

}  // namespace weir_test
