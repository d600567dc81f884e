// In which order collectives run, and who waits for whom.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <weir/check.hpp>
#include <weir/observer.hpp>

#include "collectives/ranks.hpp"

namespace weir_test {
namespace {

using std::chrono::steady_clock;
using weir::in;
using weir::inout;
using weir::out;

//  s0: x=1 [gate] |all_reduce| x+=...    s1: |all_reduce|
TEST(CollectivesOrder, it_follows_all_ranks_streams_and_holds_them) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  const Marker after(2);
  Gate gate;
  gate.hold(ranks.streams[1]);
  weir::fill(ranks.streams[1], x[1], 5);
  for (std::size_t r = 0; r < 2; ++r) {
    weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    mark(ranks.streams[r], after, 1, r);
  }
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return after.value(0) == 0 && after.value(1) == 0; }));
  EXPECT_FALSE(ranks.streams[0].done());
  gate.open();
  ranks.synchronize();
  EXPECT_EQ(x[0].to_host(), ints(8, 6));
  EXPECT_EQ(after.value(0) + after.value(1), 2);
}

// What has one place in each stream is behind what stands there, whatever the unit's other streams have come to.
TEST(CollectivesOrder, a_group_follows_the_streams_of_all_its_calls) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  Gate gate;
  gate.hold(ranks.streams[1]);
  weir::fill(ranks.streams[1], x[1], 5);
  {
    weir::CollectiveGroup group;
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  }
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return !ranks.streams[0].done(); }));
  gate.open();
  ranks.synchronize();
  EXPECT_EQ(x[0].to_host(), ints(8, 6));
}

TEST(CollectivesOrder, a_communicator_is_ordered_like_a_stream_whatever_the_streams) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const Ranks others(2);  // for their streams
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t) { return r; });
  const Marker second;
  Gate gate;
  gate.hold(ranks.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) {
    weir::barrier(ranks.streams[r], ranks.comms[r]);
    weir::barrier(others.streams[r], ranks.comms[r]);
  }
  mark(others.streams[1], second);
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return second.value() == 0; }));
  gate.open();
  others.synchronize();
  ranks.synchronize();
  EXPECT_EQ(second.value(), 1);
}

TEST(CollectivesOrder, calls_return_at_once_and_a_waiting_host_thread_helps) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(100, [](std::size_t r, std::size_t) { return r + 1; });
  for (int i = 0; i < 1000; ++i) {
    for (std::size_t r = 0; r < 2; ++r)
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Maximum{});
    ranks.streams[0].synchronize();
  }
  EXPECT_EQ(x[0].to_host(), ints(100, 2));
}

TEST(CollectivesOrder, a_rank_may_be_thousands_of_calls_ahead) {
  WEIR_NEEDS_RANKS(2u);
  // More than there is room for in a stream of a GPU (R3).
  const int calls = under_thread_sanitizer ? 1'000 : on_cpu() ? 5'000 : 2'000;
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(1, [](std::size_t, std::size_t) { return 1; });
  for (std::size_t r = 0; r < 2; ++r) {
    for (int i = 0; i < calls; ++i) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Average{});
    if (r == 0) {
      for (int i = 0; i < calls; ++i) weir::send(ranks.streams[0], ranks.comms[0], in(x[0]), 1);
    }
  }
  for (int i = 0; i < calls; ++i) weir::receive(ranks.streams[1], ranks.comms[1], out(x[1]), 0);
  ranks.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(1, 1));
}

TEST(CollectivesOrder, sixty_four_that_wait_hold_no_worker) {
  WEIR_NEEDS_RANKS(2u);
  const std::size_t count = on_real_gpus() ? 8 : 64;
  // Two devices of this program have a worker each: if a collective held one, the 64 would never end.
  std::vector<Ranks> groups;
  for (std::size_t i = 0; i < count; ++i) groups.emplace_back(2);
  const Marker done(count);
  for (std::size_t i = 0; i < count; ++i) {
    weir::barrier(groups[i].streams[0], groups[i].comms[0]);
    mark(groups[i].streams[0], done, 1, i);
  }
  const Marker other;
  mark(groups[0].streams[1], other);  // cpu:1 and cpu:0 are free for it
  weir::Stream more(device_of(0));
  mark(more, other, 2);
  more.synchronize();
  for (std::size_t i = count; i-- > 0;) weir::barrier(groups[i].streams[1], groups[i].comms[1]);
  for (std::size_t i = 0; i < count; ++i) {
    groups[i].synchronize();
    EXPECT_EQ(done.value(i), 1);
  }
}

/// Whether the system says that every other thread of the process sleeps: one that spins or yields is running.
bool all_others_sleep() {
  const std::string mine = std::to_string(gettid());
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    if (thread.path().filename() == mine) continue;
    std::ifstream file(thread.path() / "stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name_end = line.rfind(") ");
    if (name_end != std::string::npos && line[name_end + 2] != 'S') return false;
  }
  return true;
}

TEST(CollectivesOrder, nobody_runs_while_a_peer_is_late) {
  if (!on_cpu()) GTEST_SKIP() << "a host thread that waits for a GPU is the driver's";
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  weir::barrier(ranks.streams[0], ranks.comms[0]);
  std::thread host([&] { ranks.streams[0].synchronize(); });
  EXPECT_TRUE(eventually([] { return all_others_sleep(); }));
  weir::barrier(ranks.streams[1], ranks.comms[1]);
  host.join();
}

TEST(CollectivesOrder, a_thread_for_each_rank) {
  WEIR_NEEDS_RANKS(4u);
  const Ranks ranks(4);
  const auto x = ranks.arrays<int>(1000, [](std::size_t, std::size_t) { return 1; });
  std::vector<std::thread> threads;
  for (std::size_t r = 0; r < 4; ++r) {
    threads.emplace_back([&, r] {
      for (int i = 0; i < 100; ++i) {
        weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Average{});
        if (i % 10 == 0) ranks.streams[r].synchronize();
      }
      ranks.streams[r].synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(x[3].to_host(), ints(1000, 1));
}

TEST(CollectivesOrder, sends_and_receives_match_in_order_for_each_pair) {
  WEIR_NEEDS_RANKS(3u);
  const Ranks ranks(3);
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t i) { return 10 * r + i; });
  const auto y = ranks.zeros<int>(4);
  const auto slice = [](const weir::Array<int>& array, std::size_t i) { return array.slice(i, i + 1); };
  weir::receive(ranks.streams[1], ranks.comms[1], out(slice(y[1], 0)), 0);
  weir::receive(ranks.streams[1], ranks.comms[1], out(slice(y[1], 1)), 0);
  weir::receive(ranks.streams[2], ranks.comms[2], out(slice(y[2], 0)), 0);
  weir::send(ranks.streams[0], ranks.comms[0], in(slice(x[0], 3)), 1);
  weir::send(ranks.streams[0], ranks.comms[0], in(slice(x[0], 2)), 2);
  weir::send(ranks.streams[0], ranks.comms[0], in(slice(x[0], 1)), 1);
  EXPECT_EQ(y[1].to_host(), (std::vector<int>{3, 1, 0, 0}));
  EXPECT_EQ(y[2].to_host(), (std::vector<int>{2, 0, 0, 0}));
}

TEST(CollectivesOrder, a_group_is_one_unit_so_that_exchanges_do_not_wait_for_each_other) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = ranks.zeros<int>(4);
  for (std::size_t r = 0; r < 2; ++r) {
    const int other = static_cast<int>(1 - r);
    weir::CollectiveGroup group;
    weir::send(ranks.streams[r], ranks.comms[r], in(x[r]), other);
    weir::receive(ranks.streams[r], ranks.comms[r], out(y[r]), other);
    group.end();
  }
  {
    weir::CollectiveGroup group;  // a rank's message to itself, and all ranks by one thread
    for (std::size_t r = 0; r < 2; ++r) {
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    }
    weir::send(ranks.streams[0], ranks.comms[0], in(y[0]), 0);
    weir::receive(ranks.streams[0], ranks.comms[0], out(y[0]), 0);
  }
  ranks.synchronize();
  EXPECT_EQ(y[0].to_host(), ints(4, 2));
  EXPECT_EQ(y[1].to_host(), ints(4, 1));
  EXPECT_EQ(x[1].to_host(), ints(4, 3));
}

TEST(CollectivesOrder, split_gives_each_color_its_own) {
  WEIR_NEEDS_RANKS(5u);
  const Ranks ranks(5);
  std::vector<weir::Communicator> parts;
  for (int r = 0; r < 5; ++r) parts.push_back(ranks.comms[static_cast<std::size_t>(r)].split(r % 2, -r));
  EXPECT_EQ(parts[0].size(), 3);
  EXPECT_EQ(parts[0].rank(), 2);  // the greatest key
  EXPECT_EQ(parts[4].rank(), 0);
  EXPECT_EQ(parts[1].size(), 2);
  EXPECT_EQ(parts[1].device(), device_of(1));
  const auto x = ranks.arrays<int>(2, [](std::size_t r, std::size_t) { return r; });
  for (std::size_t r = 0; r < 5; ++r) weir::all_reduce(ranks.streams[r], parts[r], inout(x[r]));
  EXPECT_EQ(x[0].to_host(), ints(2, 6));
  EXPECT_EQ(x[3].to_host(), ints(2, 4));
}

TEST(CollectivesOrder, what_all_ranks_called_is_done_when_the_communicators_are_gone) {
  WEIR_NEEDS_RANKS(2u);
  Gate gate;
  std::vector<weir::Array<int>> x;
  std::vector<weir::Stream> streams;
  {
    Ranks ranks(2);
    x = ranks.arrays<int>(1000, [](std::size_t r, std::size_t) { return r + 1; });
    gate.hold(ranks.streams[0]);
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    streams = std::move(ranks.streams);
  }
  gate.open();
  for (const weir::Stream& stream : streams) stream.synchronize();
  EXPECT_EQ(x[0].to_host(), ints(1000, 3));
}

/// Whichever half comes first.
TEST(CollectivesOrder, half_of_a_pair_is_still_there_when_the_rank_that_called_it_is_gone) {
  WEIR_NEEDS_RANKS(2u);
  for (const bool sender_leaves : {true, false}) {
    Ranks ranks(2);
    const auto x = ranks.arrays<int>(1000, [](std::size_t, std::size_t) { return 7; });
    const auto y = ranks.zeros<int>(1000);
    const auto send = [&] { weir::send(ranks.streams[0], ranks.comms[0], in(x[0]), 1); };
    const auto receive = [&] { weir::receive(ranks.streams[1], ranks.comms[1], out(y[1]), 0); };
    sender_leaves ? send() : receive();
    ranks.comms[sender_leaves ? 0 : 1] = {};
    sender_leaves ? receive() : send();
    ranks.synchronize();
    EXPECT_EQ(y[1].to_host(), ints(1000, 7));
    // There is no other one.
    EXPECT_TRUE(fails_with(weir::Errc::rank_failed, [&] { sender_leaves ? receive() : send(); }, {"was destroyed"}));
  }
}

TEST(CollectivesOrder, captured_it_is_one_node_behind_all_ranks) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(1000, [](std::size_t, std::size_t) { return 1; });
  weir::Stream& first = const_cast<weir::Stream&>(ranks.streams[0]);
  ranks.synchronize();
  weir::capture_begin(first);
  ranks.streams[1].wait(first);
  for (int i = 0; i < 2; ++i) {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  }
  first.wait(ranks.streams[1]);
  weir::Graph graph = weir::capture_end(first);
  EXPECT_EQ(graph.nodes().size(), 2u);
  const weir::Node node = graph.nodes().front().node;
  EXPECT_TRUE(fails_with(weir::Errc::not_supported, [&] { graph.resize(node, {7}); }, {"extent of its arrays"}));
  EXPECT_EQ(x[0].to_host(), ints(1000, 1));
  for (int i = 0; i < 3; ++i) graph.launch(first);
  first.synchronize();
  EXPECT_EQ(x[0].to_host(), ints(1000, 64));
  EXPECT_EQ(x[1].to_host(), ints(1000, 64));
}

TEST(CollectivesOrder, captured_ones_keep_the_order_of_their_communicator_in_any_streams) {
  if (!on_cpu()) GTEST_SKIP() << "on GPUs all are in one order, and none in bodies";
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const Ranks beside(2);  // streams and another communicator
  const auto x = ranks.zeros<int>(1000);
  const auto y = ranks.zeros<int>(1000);
  ranks.synchronize();
  const weir::Graph graph = weir::capture(ranks.streams[0], [&] {
    const weir::Stream& origin = ranks.streams[0];
    for (const weir::Stream* stream : {&ranks.streams[1], &beside.streams[0], &beside.streams[1]}) stream->wait(origin);
    const auto both = [&](const Ranks& streams, const Ranks& of, const auto& call) {
      for (std::size_t r = 0; r < 2; ++r) call(streams.streams[r], of.comms[r], r);
    };
    const auto sum = [&](const weir::Stream& s, const weir::Communicator& c, std::size_t r) {
      weir::all_reduce(s, c, inout(x[r]));
    };
    const auto move = [&](const weir::Stream& s, const weir::Communicator& c, std::size_t r) {
      r == 0 ? weir::send(s, c, in(y[0]), 1) : weir::receive(s, c, out(y[1]), 0);
    };
    both(ranks, ranks, sum);    // 0
    both(ranks, ranks, move);   // 1
    both(beside, ranks, sum);   // 2: behind 0
    both(beside, beside, sum);  // 3: behind 2, in its streams
    both(beside, ranks, move);  // 4: behind 3, and behind 1
    both(ranks, beside, sum);   // 5: behind 1, in its streams, and behind 3
    for (const weir::Stream* stream : {&ranks.streams[1], &beside.streams[0], &beside.streams[1]}) origin.wait(*stream);
  });
  std::vector<std::set<std::size_t>> behind;
  for (const weir::NodeInfo& node : graph.nodes()) {
    behind.emplace_back();
    for (const weir::Node before : node.depends) behind.back().insert(before.index());
  }
  EXPECT_EQ(behind, (std::vector<std::set<std::size_t>>{{}, {0}, {0}, {2}, {1, 3}, {1, 3}}));
}

TEST(CollectivesOrder, captured_in_bodies_they_keep_the_order_of_their_communicator_too) {
  if (!on_cpu()) GTEST_SKIP() << "on GPUs all are in one order, and none in bodies";
  const auto comms = weir::communicators({device_of(0)});
  const weir::Stream s(device_of(0));
  const weir::Stream t(device_of(0));
  const auto x = weir::zeros<int>(s, 8);
  const auto condition = weir::zeros<int>(s, 1);
  s.synchronize();
  const weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    const auto sum = [&](const weir::Stream& stream) { weir::all_reduce(stream, comms[0], inout(x)); };
    sum(s);  // 0
    weir::capture_if(
        t, condition, [&] { sum(t); }, [&] { sum(t); });  // 1 with 2, 3: behind 0
    sum(s);                                               // 4: behind 0 in its stream, and behind 1
    s.wait(t);
  });
  std::vector<std::set<std::size_t>> behind;
  for (const weir::NodeInfo& node : graph.nodes()) {
    behind.emplace_back();
    for (const weir::Node before : node.depends) behind.back().insert(before.index());
  }
  EXPECT_EQ(behind, (std::vector<std::set<std::size_t>>{{}, {0}, {}, {}, {0, 1}}));
}

TEST(CollectivesOrder, ranks_of_one_process_belong_to_one_body) {
  if (!on_cpu()) GTEST_SKIP() << "on GPUs all are in one order, and none in bodies";
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.zeros<int>(4);
  const auto condition = weir::zeros<int>(ranks.streams[1], 1);
  ranks.synchronize();
  const auto call = [&](std::size_t r) { weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r])); };
  const auto refused = [&] { EXPECT_TRUE(fails_with(weir::Errc::capture_isolation, [&] { call(1); }, {"body"})); };
  // One of them outside.
  weir::capture_begin(ranks.streams[0]);
  ranks.streams[1].wait(ranks.streams[0]);
  call(0);
  weir::capture_if(ranks.streams[1], condition, refused);
  EXPECT_TRUE(error_of([&] { static_cast<void>(weir::capture_end(ranks.streams[0])); }));
  // Each in a body of its own.
  weir::capture_begin(ranks.streams[0]);
  ranks.streams[1].wait(ranks.streams[0]);
  const auto in_other = [&] {
    const weir::Event inside = ranks.streams[1].record();
    ranks.streams[0].wait(inside);
    call(0);
    ranks.streams[1].wait(ranks.streams[0]);
  };
  weir::capture_if(ranks.streams[1], condition, in_other, refused);
  EXPECT_TRUE(error_of([&] { static_cast<void>(weir::capture_end(ranks.streams[0])); }));
  // The communicators have not failed.
  for (std::size_t r = 0; r < 2; ++r) call(r);
  ranks.synchronize();
}

TEST(CollectivesOrder, ranks_of_one_process_belong_to_one_graph) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.zeros<int>(4);
  ranks.synchronize();
  weir::capture_begin(ranks.streams[0]);
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  EXPECT_TRUE(fails_with(weir::Errc::capture_isolation,
                         [&] { weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1])); }, {"captures"}));
  EXPECT_TRUE(fails_with(weir::Errc::capture_isolation, [&] { static_cast<void>(weir::capture_end(ranks.streams[0])); },
                         {"yet to call"}));
  weir::capture_begin(ranks.streams[0]);
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  weir::capture_begin(ranks.streams[1]);
  EXPECT_TRUE(fails_with(weir::Errc::capture_isolation,
                         [&] { weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1])); }, {"another graph"}));
  EXPECT_TRUE(error_of([&] { static_cast<void>(weir::capture_end(ranks.streams[1])); }));
  EXPECT_TRUE(error_of([&] { static_cast<void>(weir::capture_end(ranks.streams[0])); }));
  // The communicators have not failed.
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  ranks.synchronize();
}

struct Ops final : weir::Observer {
  void submitted(const weir::Command& command) override {
    if (!std::holds_alternative<weir::Collective>(command.op)) return;
    texts.push_back(weir::to_text(command));
    uses.insert(uses.end(), command.uses.begin(), command.uses.end());
  }
  std::vector<std::string> texts;
  std::vector<weir::Region> uses;
};

TEST(CollectivesTools, observers_see_the_call_its_regions_and_its_peer) {
  WEIR_NEEDS_RANKS(2u);
  const Ranks ranks(2);
  const auto x = ranks.zeros<int>(4);
  Ops ops;
  weir::attach(ops, weir::Watch::commands);
  for (std::size_t r = 0; r < 2; ++r) weir::broadcast(ranks.streams[r], ranks.comms[r], inout(x[r]), 1);
  weir::detach(ops);
  ranks.synchronize();
  ASSERT_EQ(ops.texts.size(), 2u);
  EXPECT_NE(ops.texts[0].find("broadcast 1 of communicator"), std::string::npos) << ops.texts[0];
  EXPECT_NE(ops.texts[0].find("rank 0 of 2, with 1, 16 bytes write"), std::string::npos) << ops.texts[0];
  EXPECT_EQ(ops.uses[1], weir::region_of(in(x[1])));
}

TEST(CollectivesTools, the_checker_knows_that_a_collective_orders_streams) {
  WEIR_NEEDS_RANKS(2u);
  if (!on_cpu()) GTEST_SKIP() << "one device serves two ranks";
  const weir::Device cpu = weir::device("cpu:0");
  const auto comms = weir::communicators({cpu, cpu});
  const weir::Stream s0(cpu);
  const weir::Stream s1(cpu);
  const auto errors = [&](bool barrier) {
    weir::Checker checker({.mode = weir::CheckMode::collect});
    const auto x = weir::zeros<int>(s0, 4);
    for (std::size_t r = 0; r < 2 && barrier; ++r) weir::barrier(r == 0 ? s0 : s1, comms[r]);
    weir::fill(s1, x, 1);
    s0.synchronize();
    s1.synchronize();
    checker.finish();
    return checker.errors();
  };
  EXPECT_GT(errors(false), 0u);
  EXPECT_EQ(errors(true), 0u);
}

}  // namespace
}  // namespace weir_test
