// Failures and waits: which failure a stream has that waits for others, and which it has not.
#include <stdexcept>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class FailuresAndWaits : public AnyDevice {
 protected:
  static void fail(weir::StreamRef s, const char* text) {
    weir::host_call(s, [text] { throw std::runtime_error(text); });
  }
};
ON_EVERY_DEVICE(FailuresAndWaits);

//  a: [hold 1 ...]|e [fails]
//  b: [hold 2 ...............]  wait(e) [mark]         a has failed by then, but not before e
TEST_P(FailuresAndWaits, a_wait_that_ends_after_a_later_failure_inherits_nothing) {
  Gate first, second;
  Marker marker;
  weir::Stream a(device()), b(device());
  first.hold(a);
  second.hold(b);
  const weir::Event e = a.record();
  b.wait(e);
  mark(b, marker);
  fail(a, "the pipe burst");
  const weir::Event end = a.record();
  first.open();
  EXPECT_THROW(end.synchronize(), weir::Error);  // and leaves the failure in place
  second.open();
  b.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_THROW(a.synchronize(), weir::Error);
}

//  a: [fails]|e
//  b: [fails] wait(e)                 its own failure came first
TEST_P(FailuresAndWaits, a_stream_that_has_failed_keeps_its_failure_when_it_waits_for_another) {
  Gate gate;
  weir::Stream a(device()), b(device());
  gate.hold(a);
  fail(a, "the other pipe burst");
  fail(b, "the own pipe burst");
  b.wait(a);
  gate.open();
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { b.synchronize(); }, {"the own pipe burst"}));
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { a.synchronize(); }, {"the other pipe burst"}));
}

}  // namespace
}  // namespace weir_test
