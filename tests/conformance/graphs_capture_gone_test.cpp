// A capture ends with the stream that it began on (R145).
#include <stdexcept>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace {

using namespace weir_test;

class CapturesGone : public AnyDevice {};

TEST_P(CapturesGone, the_thread_waits_and_captures_again_after_an_exception_left_the_scope) {
  Marker marker;
  try {
    const weir::Stream origin(device());
    weir::capture_begin(origin);
    mark(origin, marker, 7);
    throw std::runtime_error("on the way");
  } catch (const std::runtime_error&) {
  }
  const weir::Stream s(device());
  s.synchronize();
  device().synchronize();
  weir::legacy_stream(device()).synchronize();
  EXPECT_EQ(marker.value(), 0);
  const weir::Graph graph = weir::capture(s, [&] { mark(s, marker); });
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(CapturesGone, streams_that_had_joined_it_run_again) {
  Marker marker;
  const weir::Stream joined(device());
  {
    const weir::Stream origin(device());
    weir::capture_begin(origin);
    joined.wait(origin);
    mark(joined, marker, 7);
    EXPECT_TRUE(weir::is_capturing(joined));
  }
  EXPECT_FALSE(weir::is_capturing(joined));
  EXPECT_FALSE(weir::capture_info(joined).has_value());
  mark(joined, marker);
  joined.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(fails_with(weir::Errc::not_capturing, [&] { static_cast<void>(weir::capture_end(joined)); }));
}

TEST_P(CapturesGone, other_captures_of_the_thread_go_on) {
  Marker marker;
  const weir::Stream s(device(), {.blocking = false});
  weir::capture_begin(s);
  {
    const weir::Stream origin(device(), {.blocking = false});
    weir::capture_begin(origin);
  }
  mark(s, marker);
  const weir::Graph graph = weir::capture_end(s);
  EXPECT_EQ(graph.size(), 1u);
}

ON_EVERY_DEVICE(CapturesGone);

}  // namespace