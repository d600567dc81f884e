// Every kind of command takes part in the rules of the default streams, whichever way it goes to its stream.
#include <array>
#include <functional>
#include <utility>
#include <vector>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

template <std::size_t bytes>
struct LargeNothing {
  std::array<unsigned char, bytes> data;
  WEIR_KERNEL void operator()(std::size_t) const {}
};
struct NothingOfTwo {
  WEIR_KERNEL void operator()(weir::Index<2>) const {}
};
struct NothingInBlocks {
  WEIR_KERNEL void operator()(weir::Block&) const {}
};

class DefaultStreamsCommands : public AnyDevice {
 protected:
  weir::StreamRef legacy() const { return weir::legacy_stream(device()); }
};
ON_EVERY_DEVICE(DefaultStreamsCommands);

//  legacy: [hold ......]
//  s:                    [command]      for each kind of command
TEST_P(DefaultStreamsCommands, M2_R19_every_kind_of_command_waits_for_earlier_legacy_work) {
  weir::Stream t(device(), {.blocking = false});
  auto a = weir::zeros<int>(t, 64);
  auto b = weir::zeros<int>(t, 64);
  std::vector<int> pageable(64);
  t.synchronize();
  const weir::Graph graph = weir::capture(t, [&] { weir::fill(t, a, 1); });
  using Enqueue = std::function<void(weir::StreamRef)>;
  const std::vector<std::pair<const char*, Enqueue>> commands = {
      {"launch", [](weir::StreamRef s) { weir::launch(s, 1, LargeNothing<1>{}); }},
      {"launch of 32 bytes", [](weir::StreamRef s) { weir::launch(s, 1, LargeNothing<32>{}); }},
      {"launch of 64 bytes", [](weir::StreamRef s) { weir::launch(s, 1, LargeNothing<64>{}); }},
      {"launch of 300 bytes", [](weir::StreamRef s) { weir::launch(s, 1, LargeNothing<300>{}); }},
      {"launch with a name",
       [](weir::StreamRef s) { weir::launch(s, weir::Extent{.size = 1, .name = "named"}, LargeNothing<1>{}); }},
      {"launch of two dimensions", [](weir::StreamRef s) { weir::launch(s, weir::Shape(2, 2), NothingOfTwo{}); }},
      {"launch of blocks",
       [](weir::StreamRef s) {
         weir::launch_blocks(s, {1, 32}, NothingInBlocks{});
       }},
      {"copy", [&](weir::StreamRef s) { weir::copy(s, a, b); }},
      {"copy from pageable memory", [&](weir::StreamRef s) { weir::copy(s, a, pageable); }},
      {"fill", [&](weir::StreamRef s) { weir::fill(s, a, 2); }},
      {"host function", [](weir::StreamRef s) { weir::host_call(s, [] {}); }},
      {"graph", [&](weir::StreamRef s) { graph.launch(s); }},
  };
  for (const auto& [name, enqueue] : commands) {
    Gate gate;
    weir::Stream s(device());
    gate.hold(legacy());
    EXPECT_TRUE(returns_while_held(gate, [&, &enqueue = enqueue] { enqueue(s); })) << name;
    EXPECT_TRUE(stays(
        device(), [&] { return !s.done(); }, 4))
        << name;
    gate.open();
    s.synchronize();
  }
}

//  legacy: [hold ......]
//  s:                   |e               stands for the legacy work before it
//  n:                   wait(e)[mark]    (non-blocking)
TEST_P(DefaultStreamsCommands, R19_R71_a_record_in_a_blocking_stream_stands_for_earlier_legacy_work) {
  for (const bool timed : {false, true}) {
    Gate gate;
    Marker marker;
    weir::Stream s(device()), n(device(), {.blocking = false});
    const weir::Event plain(device());
    const weir::TimedEvent with_time(device());
    const weir::EventRef e = timed ? weir::EventRef(with_time) : weir::EventRef(plain);
    gate.hold(legacy());
    s.record(e);
    n.wait(e);
    mark(n, marker);
    EXPECT_FALSE(e.done());
    EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
    gate.open();
    n.synchronize();
    EXPECT_EQ(marker.value(), 1);
  }
}

//  legacy: [hold ......]
//  s:                   |e               alone in its stream, in each turn
TEST_P(DefaultStreamsCommands, R19_R71_a_stream_is_done_when_its_record_behind_legacy_work_is_reached) {
  weir::Stream s(device());
  const weir::Event plain(device());
  const weir::TimedEvent with_time(device());
  for (const weir::EventRef e : {weir::EventRef(plain), weir::EventRef(with_time), weir::EventRef(plain)}) {
    Gate gate;
    gate.hold(legacy());
    s.record(e);
    EXPECT_TRUE(stays(device(), [&] { return !s.done() && !e.done(); }));
    EXPECT_TRUE(blocks_until_open(device(), gate, [&] { s.synchronize(); }));
    EXPECT_TRUE(e.done());
    EXPECT_TRUE(s.done());
  }
}

//  s:      [hold ......]
//  legacy:               [graph: mark]
TEST_P(DefaultStreamsCommands, M2_R18_a_graph_in_the_legacy_stream_waits_for_blocking_streams) {
  Gate gate;
  Marker marker;
  weir::Stream s(device()), t(device());
  const weir::Graph graph = weir::capture(t, [&] { mark(t, marker); });
  gate.hold(s);
  graph.launch(legacy());
  EXPECT_TRUE(stays(device(), [&] { return marker.value() == 0; }));
  gate.open();
  legacy().synchronize();
  EXPECT_EQ(marker.value(), 1);
}

}  // namespace
}  // namespace weir_test
