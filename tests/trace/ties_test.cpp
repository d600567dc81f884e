// What commands of a session depend on without a wait of the user's: memory that ends, collectives, and replays.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/trace.hpp>
#include <weir/weir.hpp>

namespace {

using weir::trace::Lane;
using weir::trace::Session;
using weir::trace::Tie;
using weir::trace::Timeline;

struct Nothing {
  void operator()(std::size_t, weir::View<float>) const {}
};

/// One line for each command: what it is, and what it comes behind.
std::string drawn(const Timeline& timeline) {
  const auto place_of = [&](const weir::trace::Command& one) {
    const std::string name = one.lane == Lane::kernel  ? "work"
                             : one.lane == Lane::graph ? "graph"
                                                       : std::string(timeline.name_of(one));
    return std::string(timeline.text(timeline.streams[one.stream].name)) + "." + name;
  };
  std::string text;
  for (const weir::trace::Command& one : timeline.commands) {
    text += place_of(one);
    for (const weir::trace::Dependency& on : timeline.dependencies_of(one)) {
      text += " <" + std::string(to_text(on.tie)) + "- " + place_of(timeline.commands[on.command]);
    }
    text += "\n";
  }
  return text;
}

weir::Stream stream_of(const char* name, bool blocking = false) {
  return weir::Stream(weir::device("cpu"), {.blocking = blocking, .name = name});
}

TEST(TraceSession, lets_a_stream_go_on_before_memory_that_another_one_uses_ends) {
  const weir::Stream a = stream_of("a"), b = stream_of("b");
  auto kept = weir::zeros<float>(a, 1);
  auto dropped = weir::zeros<float>(a, 1);
  weir::synchronize();
  Session session;
  weir::launch(b, 1, Nothing{}, weir::inout(dropped));
  weir::launch(a, 1, Nothing{}, weir::inout(kept));
  std::exchange(dropped, {});
  weir::launch(a, 1, Nothing{}, weir::inout(kept));
  weir::synchronize();
  EXPECT_EQ(drawn(session.stop()),
            "b.work\n"
            "a.work\n"
            "a.free <stream order- a.work <memory- b.work\n"
            "a.work <stream order- a.work\n");
}

//  a: [work] [free]   synchronize   b: [alloc: the same memory] [work]
TEST(TraceSession, ties_memory_of_a_pool_to_the_free_of_what_was_there_before) {
  const weir::Stream a = stream_of("a"), b = stream_of("b");
  weir::Pool own(weir::device("cpu"));
  const weir::PoolRef pool = own;
  void* const before = pool.allocate(a, 1 << 20);
  a.synchronize();
  Session session;
  weir::launch(a, 1, Nothing{}, weir::inout(weir::View<float>(static_cast<float*>(before), 1)));
  pool.free(a, before);
  a.synchronize();  // so that the pool gives it out again
  void* const after = pool.allocate(b, 1 << 20);
  ASSERT_EQ(after, before);
  weir::launch(b, 1, Nothing{}, weir::inout(weir::View<float>(static_cast<float*>(after), 1)));
  void* const other = pool.allocate(b, 1 << 20);
  weir::synchronize();
  EXPECT_EQ(drawn(session.stop()),
            "a.work\n"
            "a.free <stream order- a.work\n"
            "b.alloc <memory- a.free\n"
            "b.work <stream order- b.alloc\n"
            "b.alloc <stream order- b.work\n");
  pool.free(b, after);
  pool.free(b, other);
}

TEST(TraceSession, keeps_a_default_streams_barrier_though_a_free_was_told_of_it_first) {
  const weir::Stream a = stream_of("a", true);
  const weir::StreamRef legacy = weir::legacy_stream(weir::device("cpu"));
  auto x = weir::zeros<float>(a, 1);
  auto dropped = weir::zeros<float>(a, 1);
  weir::synchronize();
  Session session;
  weir::launch(legacy, 1, Nothing{}, weir::inout(x));
  std::exchange(dropped, {});
  weir::launch(a, 1, Nothing{}, weir::inout(x));
  weir::synchronize();
  EXPECT_EQ(drawn(session.stop()),
            "legacy.work\n"
            "a.free <memory- legacy.work\n"
            "a.work <default stream- legacy.work\n");
}

TEST(TraceSession, ties_replays_of_one_graph_in_several_streams) {
  const weir::Stream a = stream_of("a"), b = stream_of("b");
  auto x = weir::zeros<float>(a, 1);
  const weir::Graph graph = weir::capture(a, [&] { weir::launch(a, 1, Nothing{}, weir::inout(x)); });
  const weir::Graph other = graph.clone();
  weir::synchronize();
  Session session;
  graph.launch(a);
  other.launch(b);
  graph.launch(b);
  graph.launch(b);
  weir::synchronize();
  EXPECT_EQ(drawn(session.stop()),
            "a.graph\n"
            "b.graph\n"
            "b.graph <stream order- b.graph <replay- a.graph\n"
            "b.graph <stream order- b.graph\n");
}

TEST(TraceSession, ties_no_part_of_a_collective_to_the_end_of_another) {
  const weir::Device cpu = weir::device("cpu");
  const std::vector<weir::Communicator> ranks = weir::communicators({cpu, cpu});
  const weir::Stream streams[2] = {stream_of("a", true), stream_of("b", true)};
  auto x = weir::zeros<float>(streams[0], 8), y = weir::zeros<float>(streams[1], 8);
  weir::Array<float>* const arrays[2] = {&x, &y};
  weir::synchronize();
  Session session;
  for (int twice = 0; twice < 2; ++twice) {
    for (int r : {0, 1}) weir::all_reduce(streams[r], ranks[r], weir::inout(*arrays[r]), weir::Plus{});
    for (int r : {0, 1}) weir::launch(streams[r], 8, Nothing{}, weir::inout(*arrays[r]));
  }
  weir::send(streams[0], ranks[0], weir::in(x), 1);
  weir::receive(streams[1], ranks[1], weir::out(y), 0);
  weir::synchronize();
  const Timeline timeline = session.stop();
  EXPECT_EQ(timeline.collectives.size(), 6u);
  for (const weir::trace::Command& one : timeline.commands) {
    for (const weir::trace::Dependency& on : timeline.dependencies_of(one)) {
      EXPECT_EQ(on.tie, Tie::stream_order);
      EXPECT_EQ(timeline.commands[on.command].stream, one.stream);
      EXPECT_LE(timeline.commands[on.command].end, one.begin);
    }
  }
}

}  // namespace
