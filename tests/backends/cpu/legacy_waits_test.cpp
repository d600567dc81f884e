// Waits in the legacy stream for work that is pending are commands as others: they separate blocking streams.
#include <gtest/gtest.h>

#include <weir/weir.hpp>

#include "support/gate.hpp"

namespace weir_test {
namespace {

struct Quiet : weir::Observer {};

//  a:      [hold ................]
//  n:      [hold ...]|e                (non-blocking)
//  legacy: wait(e)
//  b:      [mark]                      behind the wait, hence behind a
TEST(LegacyWaits, a_wait_of_the_legacy_stream_for_pending_work_separates_blocking_streams) {
  const weir::Device cpu = weir::device("cpu");
  Quiet observer;
  for (const bool observed : {false, true}) {
    if (observed) weir::attach(observer);
    Gate first, second;
    Marker marker;
    weir::Stream a(cpu), b(cpu), n(cpu, {.blocking = false});
    first.hold(a);
    second.hold(n);
    const weir::Event e = n.record();
    weir::legacy_stream(cpu).wait(e);
    mark(b, marker);
    second.open();
    n.synchronize();
    EXPECT_TRUE(stays(cpu, [&] { return marker.value() == 0; }));
    first.open();
    EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
    if (observed) weir::detach(observer);
  }
}

}  // namespace
}  // namespace weir_test
