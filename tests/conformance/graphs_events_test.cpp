// Events in graphs: times after a replay, records and waits as nodes (R143).
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;

class GraphsEvents : public AnyDevice {
 protected:
  weir::Stream s{device()};
};

TEST_P(GraphsEvents, TimedEventsGiveTimesAfterAReplay) {
  Gate gate;
  weir::TimedEvent start(device());
  weir::TimedEvent end(device());
  weir::Graph graph = weir::capture(s, [&] {
    s.record(start);
    gate.hold(s);
    s.record(end);
  });
  EXPECT_TRUE(fails_with(weir::Errc::invalid_handle, [&] { weir::elapsed(start, end); }));
  graph.launch(s);
  EXPECT_TRUE(eventually([&] { return gate.begun() == 1; }));
  EXPECT_TRUE(eventually([&] { return start.done(); }));
  EXPECT_FALSE(end.done());
  EXPECT_TRUE(fails_with(weir::Errc::not_ready, [&] { weir::elapsed(start, end); }));
  gate.open();
  end.synchronize();
  EXPECT_GT(weir::elapsed(start, end).count(), 0);
  graph.launch(s);
  s.synchronize();
  EXPECT_GE(weir::elapsed(start, end).count(), 0);
}

TEST_P(GraphsEvents, ATimedEventForksToo) {
  weir::Stream t(device());
  weir::TimedEvent forked(device());
  Marker marker;
  weir::Graph graph = weir::capture(s, [&] {
    s.record(forked);
    t.wait(forked);
    mark(t, marker);
    s.wait(t);
  });
  EXPECT_EQ(topology(graph), "record; mark<record");
  graph.launch(s);
  s.synchronize();
  EXPECT_EQ(marker.value(), 1);
  EXPECT_TRUE(forked.done());
}

TEST_P(GraphsEvents, AskingForTheTimeOfACapturedEventLeavesTheCapture) {  // R118
  weir::TimedEvent a(device());
  weir::TimedEvent b(device());
  weir::capture_begin(s);
  s.record(a);
  s.record(b);
  EXPECT_TRUE(fails_with(weir::Errc::captured_event, [&] { weir::elapsed(a, b); }, {"weir::elapsed"}));
  EXPECT_EQ(weir::capture_end(s).size(), 2u);
}

TEST_P(GraphsEvents, ExternalRecordsAndWaitsAreNodes) {  // R143
  weir::Stream t(device());
  weir::Event go(device());
  weir::Event done(device());
  Gate gate;
  Gate later;
  Marker marker(2);
  gate.hold(t);
  t.record(go);
  weir::Graph graph = weir::capture(s, [&] {
    mark(s, marker, 1, 0);
    weir::wait_external(s, go);
    mark(s, marker, 1, 1);
    weir::record_external(s, done);
    later.hold(s);
  });
  EXPECT_EQ(topology(graph), "mark; wait<mark; mark<wait; record<mark; hold<record");
  graph.launch(s);
  EXPECT_TRUE(eventually([&] { return marker.value(0) == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return marker.value(1) == 0 && !done.done(); }));
  gate.open();
  done.synchronize();  // the graph is not through yet
  EXPECT_EQ(marker.value(1), 1);
  EXPECT_FALSE(s.done());
  later.open();
  s.synchronize();
}

TEST_P(GraphsEvents, OneGraphWaitsForAnother) {
  weir::Stream t(device());
  weir::Event event(device());
  Gate gate;
  Marker marker;
  weir::Graph a = weir::capture(s, [&] {
    gate.hold(s);
    mark(s, marker, 1);
    weir::record_external(s, event);
  });
  int seen = 0;
  weir::Graph b = weir::capture(t, [&] {
    weir::wait_external(t, event);
    weir::host_call(t, [&] { seen = marker.value(); });
  });
  a.launch(s);
  b.launch(t);
  EXPECT_TRUE(stays(device(), [&] { return seen == 0; }));
  gate.open();
  t.synchronize();
  EXPECT_EQ(seen, 1);
}

TEST_P(GraphsEvents, AnEventThatIsGoneIsLeftAlone) {
  weir::Graph graph = weir::capture(s, [&] {
    weir::TimedEvent short_lived(device());
    s.record(short_lived);
  });
  weir::Event other(device());
  graph.launch(s);
  s.synchronize();
  EXPECT_TRUE(other.done());
}

ON_EVERY_DEVICE(GraphsEvents);

}  // namespace
