// Timed events around a failure: they take the time all the same.
#include <stdexcept>

#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

class EventsFailures : public AnyDevice {};
ON_EVERY_DEVICE(EventsFailures);

//  s: |start [fails] |end
TEST_P(EventsFailures, N4_a_timed_event_behind_a_failure_takes_the_time) {
  weir::Stream s(device());
  const weir::TimedEvent start = s.record_timed();
  weir::host_call(s, [] { throw std::runtime_error("the pipe burst"); });
  const weir::TimedEvent end = s.record_timed();
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }, {"the pipe burst"}));
  const weir::TimedEvent later = s.record_timed();
  s.synchronize();
  EXPECT_GE(weir::elapsed(start, end).count(), 0.0f);
  EXPECT_GE(weir::elapsed(end, later).count(), 0.0f);
  EXPECT_LT(weir::elapsed(start, later).count(), 600'000.0f);
}

}  // namespace
}  // namespace weir_test
