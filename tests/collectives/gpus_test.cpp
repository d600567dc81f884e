// What collectives among GPUs have beyond those of CPU devices: streams that are not told of a part at once, and NCCL's own rules.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <thread>

#include <weir/observer.hpp>

#include "collectives/ranks.hpp"
#include "support/child.hpp"

namespace weir_test {
namespace {

using weir::Errc;
using weir::in;
using weir::inout;
using weir::out;

TEST(CollectivesGpus, nccl_carries_them_and_each_gpu_is_one_rank) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  EXPECT_EQ(ranks.comms[0].transport(), "NCCL");
  EXPECT_TRUE(fails_with(Errc::not_supported,
                         [] {
                           static_cast<void>(weir::communicators({device_of(0), device_of(1), device_of(0)}));
                         },
                         {name_of(0), "twice"}));
  EXPECT_TRUE(fails_with(Errc::not_supported,
                         [] {
                           static_cast<void>(weir::communicators({device_of(0), weir::device("cpu:0")}));
                         },
                         {"no transport in common"}));
}

//  s0: |all_reduce|      then whatever is asked of s0, before rank 1 calls
TEST(CollectivesGpus, what_comes_behind_a_part_waits_for_it_whoever_asks) {
  WEIR_NEEDS_GPUS
  for (int what = 0; what < 6; ++what) {
    SCOPED_TRACE(what);
    const Ranks ranks(2);
    const std::size_t count = what % 2 == 0 ? 8 : many;
    const auto x = ranks.arrays<int>(count, [](std::size_t r, std::size_t) { return r + 1; });
    const auto copy = weir::zeros<int>(ranks.streams[0], count);
    const weir::Stream other(device_of(0));
    const weir::Stream host(weir::device("cpu:0"));
    ranks.synchronize();
    Marker after;
    weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
    switch (what) {
      case 0: mark(ranks.streams[0], after); break;
      case 1: weir::host_call(ranks.streams[0], [&after] { after.set(1); }); break;
      case 2:
        other.wait(ranks.streams[0].record());
        mark(other, after);
        break;
      case 3: mark(weir::legacy_stream(device_of(0)), after); break;  // the legacy stream waits for blocking ones
      case 4:
        host.wait(ranks.streams[0].record());
        mark(host, after);
        break;
      default:
        weir::copy(ranks.streams[0], copy, x[0]);
        mark(ranks.streams[0], after);
        break;
    }
    EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return after.value() == 0; }));
    weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1]));
    EXPECT_TRUE(eventually([&] { return after.value() == 1; }));
    EXPECT_EQ(x[0].to_host(), ints(count, 3));
    EXPECT_EQ(copy.to_host(), ints(count, what == 5 ? 3 : 0));
  }
}

//  the first collective of a communicator that split() gave: NCCL's part of it is made when somebody needs it
//  s0: |all_reduce|, and something behind it, or before it, or nobody calls for a while      then  s1: |all_reduce|
TEST(CollectivesGpus, what_split_gives_is_made_before_anything_waits_for_it) {
  WEIR_NEEDS_GPUS
  for (int what = 0; what < 4; ++what) {
    SCOPED_TRACE(what);
    const Ranks ranks(2);
    std::vector<weir::Communicator> parts;
    for (std::size_t r = 0; r < 2; ++r)
      parts.push_back(ranks.comms[r].split(what, what % 2 == 0 ? 0 : -static_cast<int>(r)));
    const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
    ranks.synchronize();
    const Marker after;
    if (what == 0) weir::host_call(ranks.streams[0], [] {});
    if (what == 1) static_cast<void>(ranks.streams[0].native());  // others may come behind it without a word
    weir::all_reduce(ranks.streams[0], parts[0], inout(x[0]));
    if (what == 2) mark(ranks.streams[0], after);
    if (what == 3) {
      EXPECT_TRUE(stays(
          weir::device("cpu:2"), [&] { return after.value() == 0; }, 4000));
    };
    weir::all_reduce(ranks.streams[1], parts[1], inout(x[1]));
    ranks.synchronize();
    EXPECT_EQ(x[0].to_host(), ints(8, 3));
    EXPECT_EQ(after.value(), what == 2 ? 1 : 0);
  }
}

//  s0: [gate] x=5 |all_reduce| mark      s1: |all_reduce|
TEST(CollectivesGpus, a_part_that_others_stand_behind_follows_its_stream) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  ranks.synchronize();
  const Marker after;
  Gate gate;
  gate.hold(ranks.streams[0]);
  weir::fill(ranks.streams[0], x[0], 5);
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  EXPECT_FALSE(ranks.streams[0].done());
  mark(ranks.streams[0], after);
  weir::all_reduce(ranks.streams[1], ranks.comms[1], inout(x[1]));
  EXPECT_FALSE(ranks.streams[1].done());
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return after.value() == 0; }));
  gate.open();
  EXPECT_EQ(x[1].to_host(), ints(8, 7));
  EXPECT_EQ(x[0].to_host(), ints(8, 7));
}

TEST(CollectivesGpus, a_stream_may_go_with_a_part_in_it) {
  WEIR_NEEDS_GPUS
  Ranks ranks(2);
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  ranks.streams.erase(ranks.streams.begin());
  weir::all_reduce(ranks.streams[0], ranks.comms[1], inout(x[1]));
  ranks.streams[0].synchronize();
  EXPECT_EQ(x[0].to_host(), ints(8, 3));
}

//  device 0: s0 [gate] |A|    t0 |B|        device 1: s1 |A|   t1 |B|
TEST(CollectivesGpus, communicators_that_share_gpus_run_in_the_order_of_the_calls) {
  WEIR_NEEDS_GPUS
  const Ranks a(2);
  const Ranks b(2);
  const auto x = a.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = b.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  a.synchronize();
  b.synchronize();
  const Marker second;
  Gate gate;
  gate.hold(a.streams[0]);
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(a.streams[r], a.comms[r], inout(x[r]));
  for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(b.streams[r], b.comms[r], inout(y[r]));
  mark(b.streams[1], second);
  EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return second.value() == 0; }));
  gate.open();
  b.synchronize();
  a.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(8, 3));
  EXPECT_EQ(y[0].to_host(), ints(8, 3));
}

//  rank 0: s |send|  t |barrier|     rank 1: s |barrier|  t |receive|     the barrier is whole first, and behind the send in t of rank 0
TEST(CollectivesGpus, what_waits_for_a_call_that_is_not_whole_holds_up_nobody_else) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const Ranks more(2);  // for their streams
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t) { return r + 7; });
  ranks.synchronize();
  weir::send(ranks.streams[0], ranks.comms[0], in(x[0]), 1);
  more.streams[0].wait(ranks.streams[0].record());
  weir::barrier(more.streams[0], ranks.comms[0]);
  weir::barrier(ranks.streams[1], ranks.comms[1]);
  weir::receive(more.streams[1], ranks.comms[1], out(x[1]), 0);
  ranks.synchronize();
  more.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(4, 7));
}

TEST(CollectivesGpus, every_stream_comes_behind_all_others_whatever_moves) {
  WEIR_NEEDS_GPUS
  for (int what = 0; what < 4; ++what) {
    SCOPED_TRACE(what);
    const Ranks ranks(2);
    const auto x = ranks.zeros<int>(8);
    const auto y = ranks.zeros<int>(4);
    ranks.synchronize();
    Marker after;
    Gate gate;
    gate.hold(ranks.streams[1]);
    for (std::size_t r = 0; r < 2; ++r) {
      const weir::Stream& s = ranks.streams[r];
      const weir::Communicator& comm = ranks.comms[r];
      if (what == 0) weir::broadcast(s, comm, inout(x[r]), 0);
      if (what == 1) weir::scatter(s, comm, in(x[r]), out(y[r]), 0);
      if (what == 2) weir::all_reduce(s, comm, inout(x[r].slice(0, 0)));  // of nothing
      if (what == 3 && r == 0) weir::send(s, comm, in(x[0].slice(0, 0)), 1);
      if (what == 3 && r == 1) weir::receive(s, comm, out(x[1].slice(0, 0)), 0);
      mark(s, after, 1, 0);
    }
    EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return after.value() == 0; }));
    gate.open();
    ranks.synchronize();
  }
}

/// Of a rank's part; from 8 MiB on the GPUs' copy engines move it.
constexpr std::size_t large = (std::size_t{8} << 20) / sizeof(int);
int first_of(std::size_t r) { return static_cast<int>(10 * r + 1); }

void expect_gathered(const Ranks& ranks, const std::vector<weir::Array<int>>& y) {
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::vector<int> found = y[r].to_host();
    for (std::size_t i = 0; i < found.size(); ++i) {
      const int expected = i / large == 1 ? 5 : first_of(i / large) + static_cast<int>(i % large % 3);
      ASSERT_EQ(found[i], expected) << "rank " << r << ", element " << i;
    }
  }
}

//  s0: |all_gather| x=-1      s1: [gate] x=5 |all_gather| x=-1      ...   with what comes behind given before the others call, or after
TEST(CollectivesGpus, large_parts_come_behind_all_streams_and_hold_what_comes_behind) {
  WEIR_NEEDS_GPUS
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    const bool in_place = round % 3 == 2;
    const Ranks ranks(std::min<std::size_t>(3, most_ranks()));
    const std::size_t n = ranks.size();
    const auto element = [](std::size_t r, std::size_t i) { return first_of(r) + static_cast<int>(i % 3); };
    const auto y = ranks.zeros<int>(n * large);
    auto x = ranks.arrays<int>(in_place ? 1 : large, element);
    std::vector<decltype(y[0].slice(0, 1))> part;
    for (std::size_t r = 0; r < n; ++r) {
      part.push_back(in_place ? y[r].slice(r * large, (r + 1) * large) : x[r].slice(0, large));
      if (in_place) weir::copy(ranks.streams[r], part[r], ranks.arrays<int>(large, element)[r]);
    }
    ranks.synchronize();
    Gate gate;
    gate.hold(ranks.streams[1]);
    weir::fill(ranks.streams[1], part[1], 5);
    const auto overwrite = [&](std::size_t r) {
      if (!in_place) weir::fill(ranks.streams[r], x[r], -1);
    };
    for (std::size_t r = 0; r < n; ++r) {
      weir::all_gather(ranks.streams[r], ranks.comms[r], in(part[r]), out(y[r]));
      if (round % 2 == 1) overwrite(r);
    }
    for (std::size_t r = 0; r < n && round % 2 == 0; ++r) overwrite(r);
    EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return !ranks.streams[0].done(); }));
    gate.open();
    ranks.synchronize();
    expect_gathered(ranks, y);
  }
}

TEST(CollectivesGpus, large_parts_follow_and_precede_what_nccl_carries) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const auto x = ranks.arrays<int>(large, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = ranks.zeros<int>(2 * large);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    for (std::size_t r = 0; r < 2; ++r) weir::all_gather(ranks.streams[r], ranks.comms[r], in(x[r]), out(y[r]));
    for (std::size_t r = 0; r < 2; ++r) weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  }
  // 1 and 2 give 3, of which each all_reduce makes twice as much: the last all_gather sees the fifth.
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(y[r].to_host(), ints(2 * large, 48));
    EXPECT_EQ(x[r].to_host(), ints(large, 96));
  }
}

/// A stream has room for about a thousand commands (R3), and the one thread has yet to make the other rank's calls.
//  s0: |A B send| x 1000, mark      then  s1: |A B receive| x 1000, mark
TEST(CollectivesGpus, calls_that_wait_one_behind_the_other_take_no_room_in_a_stream) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const Ranks others(2);
  const int rounds = under_thread_sanitizer ? 400 : 1000;
  const auto x = ranks.arrays<int>(4, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = ranks.zeros<int>(4);
  ranks.synchronize();
  const Marker after(2);
  for (std::size_t r = 0; r < 2; ++r) {
    for (int i = 0; i < rounds; ++i) {
      weir::broadcast(ranks.streams[r], ranks.comms[r], inout(x[r]), i % 2);
      weir::all_reduce(ranks.streams[r], others.comms[r], in(x[r]), out(y[r]));
      if (r == 0) weir::send(ranks.streams[0], ranks.comms[0], in(y[0]), 1);
      if (r == 1) weir::receive(ranks.streams[1], ranks.comms[1], out(y[1]), 0);
    }
    mark(ranks.streams[r], after, 1, r);
    if (r == 0) {
      EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return after.value(0) == 0; }));
    }
  }
  ranks.synchronize();
  EXPECT_EQ(after.value(0) + after.value(1), 2);
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_EQ(x[r].to_host(), ints(4, 1));
    EXPECT_EQ(y[r].to_host(), ints(4, 2));
  }
}

//  s0: [kernel that waits]  then thousands of calls of both ranks: NCCL gets as many at a time as streams have room for
TEST(CollectivesGpus, calls_behind_a_held_stream_return_however_many_there_are) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const int calls = under_thread_sanitizer ? 400 : 1500;
  const auto x = ranks.arrays<int>(4, [](std::size_t, std::size_t) { return 1; });
  Gate gate;
  gate.hold(ranks.streams[0]);
  for (int i = 0; i < calls; ++i) {
    for (std::size_t r = 0; r < 2; ++r)
      weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]), weir::Average{});
  }
  EXPECT_FALSE(ranks.streams[1].done());
  gate.open();
  ranks.synchronize();
  EXPECT_EQ(x[1].to_host(), ints(4, 1));
}

//  s0: |A B A B| mark      B fails, then A is called by its other rank
TEST(CollectivesGpus, of_calls_that_wait_together_one_may_fail_before_those_before_it_have_run) {
  WEIR_NEEDS_GPUS
  // Now and then a thread of the library's holds one of them before: then they do not wait together.
  for (const bool held : {false, true, true, true}) {
    SCOPED_TRACE(held);
    const Ranks a(2);
    const auto b = weir::communicators(devices_of(2));
    const auto x = a.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
    a.synchronize();
    const Marker after;
    for (int i = 0; i < 2; ++i) {
      weir::all_reduce(a.streams[0], a.comms[0], inout(x[0]));
      weir::barrier(a.streams[0], b[0]);
    }
    if (held) mark(a.streams[0], after);
    b[0].abort();
    EXPECT_TRUE(stays(weir::device("cpu:2"), [&] { return !a.streams[0].done(); }));
    weir::all_reduce(a.streams[1], a.comms[1], inout(x[1]));
    a.streams[1].synchronize();
    EXPECT_EQ(x[1].to_host(), ints(8, 3));
    // What is behind the failure has a rank that failed.
    weir::all_reduce(a.streams[1], a.comms[1], inout(x[1]));
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { a.streams[0].synchronize(); }, {"rank 0 aborted"}));
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { a.streams[1].synchronize(); }, {"failed before it came to this"}));
    EXPECT_EQ(after.value(), 0);
    EXPECT_EQ(x[0].to_host(), ints(8, 3));
  }
}

/// What is between them takes room. The thread that has none left is the one that has yet to make the other rank's calls.
TEST(CollectivesGpus, commands_between_calls_that_have_no_room_left_return_when_the_time_is_over) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2, {.name = "grads", .timeout = std::chrono::milliseconds(400)});
  const auto x = ranks.zeros<int>(8);
  const auto y = ranks.zeros<int>(8);
  ranks.synchronize();
  EXPECT_TRUE(fails_with(Errc::collective_timeout,
                         [&] {
                           for (;;) {
                             weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
                             weir::fill(ranks.streams[0], y[0], 1);
                           }
                         },
                         {"grads", "rank 1 (it did not call)"}));
  EXPECT_TRUE(fails_with(Errc::collective_timeout, [&] { ranks.streams[0].synchronize(); }));
}

TEST(CollectivesGpus, short_integers_in_slices) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2);
  const auto x = ranks.arrays<std::int16_t>(40, [](std::size_t r, std::size_t i) { return r * 100 + i; });
  const auto y = ranks.zeros<std::int16_t>(40);
  for (std::size_t r = 0; r < 2; ++r) {
    weir::all_reduce(ranks.streams[r], ranks.comms[r], in(x[r].slice({weir::Range{0, 40, 2}})),
                     out(y[r].slice({weir::Range{1, 40, 2}})), weir::Minimum{});
    weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
  }
  const auto least = y[1].to_host();
  const auto sums = x[0].to_host();
  for (std::size_t i = 0; i < 40; ++i) {
    ASSERT_EQ(least[i], i % 2 == 1 ? static_cast<int>(i) - 1 : 0);
    ASSERT_EQ(sums[i], static_cast<int>(100 + 2 * i));
  }
}

TEST(CollectivesGpus, nothing_behind_a_failure_runs_on_bad_data) {
  WEIR_NEEDS_GPUS
  const Ranks ranks(2, {.name = "grads"});
  const auto x = ranks.arrays<int>(8, [](std::size_t r, std::size_t) { return r + 1; });
  const auto y = ranks.arrays<int>(8, [](std::size_t, std::size_t) { return 9; });
  ranks.synchronize();
  const Marker after(2);
  Gate gate;
  gate.hold(ranks.streams[1]);  // rank 0 is with NCCL, and waits for it
  for (std::size_t r = 0; r < 2; ++r) {
    weir::all_reduce(ranks.streams[r], ranks.comms[r], inout(x[r]));
    weir::copy(ranks.streams[r], y[r], x[r]);
    mark(ranks.streams[r], after, 1, r);
  }
  ranks.comms[0].abort();
  gate.open();
  for (std::size_t r = 0; r < 2; ++r) {
    EXPECT_TRUE(fails_with(Errc::rank_failed, [&] { ranks.streams[r].synchronize(); }, {"rank 0 aborted"}));
    EXPECT_EQ(after.value(r), 0);
    EXPECT_EQ(y[r].to_host(), ints(8, 9));
    weir::fill(ranks.streams[r], x[r], static_cast<int>(r) + 1);  // what NCCL left there nobody knows
  }
  const auto again = ranks.comms[0].without_failed();
  const auto other = ranks.comms[1].without_failed();
  weir::all_reduce(ranks.streams[0], again, inout(x[0]));
  weir::all_reduce(ranks.streams[1], other, inout(x[1]));
  EXPECT_EQ(x[1].to_host(), ints(8, 3));
}

/// One rank is there, and commands behind it; the other one never comes.
WEIR_SCENE(collectives_end_with_a_rank_that_waits) {
  static const Ranks ranks(2);
  static const auto x = ranks.zeros<int>(8);
  static const Marker after;
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
  mark(ranks.streams[0], after);
  weir::all_reduce(ranks.streams[0], ranks.comms[0], inout(x[0]));
}

TEST(CollectivesGpus, a_process_may_end_with_a_rank_that_waits) {
  WEIR_NEEDS_GPUS
  const Outcome outcome = play("collectives_end_with_a_rank_that_waits");
  EXPECT_TRUE(ended_well(outcome)) << outcome.output;
}

}  // namespace
}  // namespace weir_test
