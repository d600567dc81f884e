// ScopedTimer on streams that fail or end.
#include <memory>
#include <string_view>

#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace weir_test {
namespace {

class StreamsTimer : public AnyDevice {};

TEST_P(StreamsTimer, HandsTheTimeOverThoughTheStreamFailed) {
  const weir::Stream s(device());
  int calls = 0;
  float time = -1;
  {
    const weir::ScopedTimer timer(s, "failing", [&](std::string_view name, weir::Milliseconds ms) {
      EXPECT_EQ(name, "failing");
      ++calls;
      time = ms.count();
    });
    weir::host_call(s, [] { throw 1; });
  }
  EXPECT_EQ(calls, 1);
  EXPECT_GE(time, 0.0f);
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); })) << "the failure stays";
}

TEST_P(StreamsTimer, ThrowsTheFailureWhenItIsStopped) {
  const weir::Stream s(device());
  int calls = 0;
  {
    weir::ScopedTimer timer(s, {}, [&](std::string_view, weir::Milliseconds) { ++calls; });
    weir::host_call(s, [] { throw 1; });
    EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { timer.stop(); }));
  }
  EXPECT_EQ(calls, 0) << "it was stopped";
  EXPECT_TRUE(fails_with(weir::Errc::host_function_failed, [&] { s.synchronize(); }));
}

TEST_P(StreamsTimer, SaysNothingForAStreamThatIsGone) {
  int calls = 0;
  {
    auto s = std::make_unique<weir::Stream>(device());
    const weir::ScopedTimer timer(*s, {}, [&](std::string_view, weir::Milliseconds) { ++calls; });
    s.reset();
  }
  EXPECT_EQ(calls, 0);
}

}  // namespace

ON_EVERY_DEVICE(StreamsTimer);

}  // namespace weir_test
