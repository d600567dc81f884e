// Streams are made and destroyed at any moment, work is never lost, and a stream that is gone is refused by name.
// Rules without a counterpart: R16 (no flag bits: options are typed), R11 (undefined in CUDA: an Error here).
#include <set>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

class StreamLifetime : public AnyDevice {};
ON_EVERY_DEVICE(StreamLifetime);

//  s: [hold ......][mark]      ~s at once; the mark comes after the hold all the same
TEST_P(StreamLifetime, C7_R10_destroying_a_stream_with_work_pending_returns_and_loses_nothing) {
  Gate gate;
  Marker marker;
  {
    weir::Stream s(device());
    gate.hold(s);
    mark(s, marker);
    EXPECT_TRUE(returns_while_held(gate, [&] { const weir::Stream gone(std::move(s)); }));
  }
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  gate.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

//  s: [hold ......][mark]      ~s
TEST_P(StreamLifetime, C7_device_synchronise_waits_for_the_work_of_destroyed_streams) {
  Gate gate;
  Marker marker;
  {
    weir::Stream s(device());
    gate.hold(s);
    mark(s, marker);
  }
  EXPECT_TRUE(blocks_until_open(device(), gate, [&] { device().synchronize(); }));
  EXPECT_EQ(marker.value(), 1);
}

//  a: [hold ......][mark]      a = b: a's work goes on, a is now b
TEST_P(StreamLifetime, C7_assigning_over_a_stream_loses_nothing) {
  Gate gate;
  Marker marker;
  weir::Stream a(device());
  gate.hold(a);
  mark(a, marker);
  weir::Stream b(device());
  const weir::StreamId id = b.id();
  EXPECT_TRUE(returns_while_held(gate, [&] { a = std::move(b); }));
  EXPECT_EQ(a.id(), id);
  EXPECT_TRUE(a.done());
  EXPECT_EQ(marker.value(), 0);
  gate.open();
  EXPECT_TRUE(eventually([&] { return marker.value() == 1; }));
}

TEST_P(StreamLifetime, C7_streams_destroyed_at_once_after_a_launch_all_do_their_work) {
  Marker count;
  for (int i = 0; i < 500; ++i) {
    weir::Stream s(device());
    count_up(s, count);
  }
  EXPECT_TRUE(eventually([&] { return count.value() == 500; }));
}

//  held: [hold ......]      in a blocking, then in a non-blocking stream
TEST_P(StreamLifetime, R60_making_and_destroying_streams_and_events_never_waits) {
  for (const bool blocking : {true, false}) {
    Gate gate;
    weir::Stream held(device(), {.blocking = blocking});
    gate.hold(held);
    EXPECT_TRUE(returns_while_held(gate, [&] {
      for (int i = 0; i < 20; ++i) {
        weir::Stream s(device());
        weir::Event e(device());
        s.record(e);
      }
    }));
    gate.open();
    held.synchronize();
  }
}

TEST_P(StreamLifetime, R12_a_stream_tells_what_it_was_made_with) {
  weir::Stream plain(device());
  weir::Stream upload(device(), {.blocking = false, .name = "upload"});
  EXPECT_TRUE(plain.blocking());
  EXPECT_FALSE(plain.name().empty()) << "a name is made up for messages";
  EXPECT_FALSE(upload.blocking());
  EXPECT_EQ(upload.name(), "upload");
  EXPECT_EQ(plain.device(), device());
  EXPECT_TRUE(weir::per_thread_stream(device()).blocking());
  EXPECT_EQ(weir::legacy_stream(device()).device(), device());
}

TEST_P(StreamLifetime, R15_ids_are_unique_and_never_used_again) {
  std::set<weir::StreamId> ids{weir::legacy_stream(device()).id(), weir::per_thread_stream(device()).id(),
                               weir::get_stream(device()).id()};
  EXPECT_EQ(ids.size(), 3u);
  for (int round = 0; round < 10; ++round) {
    std::vector<weir::Stream> streams;
    for (int i = 0; i < 20; ++i) streams.emplace_back(device());
    for (const weir::Stream& s : streams) EXPECT_TRUE(ids.insert(s.id()).second) << s.id();
  }
  EXPECT_EQ(weir::legacy_stream(device()).id(), weir::legacy_stream(device()).id());
}

/// Every call that takes a stream.
void expect_refused(weir::StreamRef s, const std::string& why) {
  const auto refused = [&](const char* name, auto&& call) {
    EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, call)) << name << " on " << why;
  };
  Marker marker;
  weir::Event event;
  weir::Stream other;
  refused("device", [&] { (void)s.device(); });
  refused("priority", [&] { (void)s.priority(); });
  refused("blocking", [&] { (void)s.blocking(); });
  refused("name", [&] { (void)s.name(); });
  refused("record(event)", [&] { s.record(event); });
  refused("record()", [&] { (void)s.record(); });
  refused("record_timed()", [&] { (void)s.record_timed(); });
  refused("wait(event)", [&] { s.wait(event); });
  refused("wait(stream)", [&] { s.wait(other); });
  refused("other.wait(it)", [&] { other.wait(s); });
  refused("synchronize", [&] { s.synchronize(); });
  refused("done", [&] { (void)s.done(); });
  refused("native", [&] { (void)s.native(); });
  refused("launch", [&] { mark(s, marker); });
  refused("host_call", [&] { weir::host_call(s, [] {}); });
  refused("empty", [&] { (void)weir::empty<int>(s, 10); });
  refused("zeros", [&] { (void)weir::zeros<int>(s, 10); });
  refused("set_stream", [&] { weir::set_stream(s); });
  refused("ScopedStream", [&] { const weir::ScopedStream scope(s); });
  refused("synchronize_stream", [&] { weir::synchronize_stream(s); });
  EXPECT_EQ(marker.value(), 0);
}

TEST_P(StreamLifetime, R11_a_moved_from_stream_is_refused) {
  weir::Stream s(device());
  const weir::Stream taken(std::move(s));
  expect_refused(s, "a stream that was moved from");
  expect_refused(weir::StreamRef{}, "an empty reference");
}

TEST_P(StreamLifetime, R11_a_destroyed_stream_is_refused_by_its_references) {
  weir::StreamRef left;
  {
    const weir::Stream s(device());
    left = s;
  }
  const weir::Stream another(device());  // must not be taken for the one that is gone
  expect_refused(left, "a stream that was destroyed");
}

TEST_P(StreamLifetime, a_reference_follows_its_stream_when_that_is_moved) {
  Marker marker;
  weir::Stream s(device());
  const weir::StreamRef ref = s;
  const weir::Stream t(std::move(s));
  EXPECT_TRUE(ref == t);
  mark(ref, marker);
  ref.synchronize();
  EXPECT_EQ(marker.value(), 1);
}

TEST_P(StreamLifetime, W10_native_handles_are_wrapped_or_refused) {
  if (!on("cpu")) GTEST_SKIP() << "this backend has native handles: see its own tests";
  int anything = 0;
  EXPECT_TRUE(
      fails_with(weir::Errc::not_supported, [&] { (void)weir::wrap_stream(device(), &anything); }, {"wrap_stream"}));
  const weir::Stream s(device());
  EXPECT_EQ(s.native(), nullptr);
}

}  // namespace
}  // namespace weir_test
