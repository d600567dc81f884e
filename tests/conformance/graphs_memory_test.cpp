// Memory inside graphs: allocation and free are nodes, replays reuse the memory, nothing leaks (R137, R138).
#include <optional>
#include <vector>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/gate.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;

class GraphsMemory : public AnyDevice {
 protected:
  weir::Stream s{device()};
  std::size_t used() { return weir::get_pool(device()).statistics().used; }
};

TEST_P(GraphsMemory, ArraysMadeInACaptureAreNodes) {  // R137
  auto result = weir::zeros<int>(s, 64);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    auto scratch = weir::full<int>(s, 64, 20);
    weir::launch(s, weir::Extent{.size = 64, .name = "plus"}, Plus{}, weir::inout(scratch), 1);
    weir::copy(s, result, scratch);
  });
  EXPECT_EQ(topology(graph), "alloc; fill<alloc; plus<fill; copy<plus; free<copy");
  for (int i = 0; i < 3; ++i) {
    weir::fill(s, result, 0);
    graph.launch(s);
    EXPECT_EQ(result.to_host(), std::vector<int>(64, 21));
  }
}

TEST_P(GraphsMemory, NothingLeaksOver100000Replays) {
  const std::size_t before = used();
  {
    weir::Graph graph = weir::capture(s, [&] {
      auto scratch = weir::full<int>(s, 1000, 20);
      weir::launch(s, 1, Plus{}, weir::inout(scratch), 1);
    });
    s.synchronize();
    const std::size_t with = used();
    for (int i = 0; i < 100'000; ++i) graph.launch(s);
    s.synchronize();
    EXPECT_EQ(used(), with);
  }
  s.synchronize();
  EXPECT_EQ(used(), before);
}

TEST_P(GraphsMemory, AnArrayThatLivesOnHoldsTheLastReplaysResult) {
  std::optional<weir::Array<int>> kept;
  weir::Graph graph = weir::capture(s, [&] {
    kept = weir::full<int>(s, 16, 3);
    weir::launch(s, 16, Plus{}, weir::inout(*kept), 4);
  });
  EXPECT_EQ(topology(graph).find("free"), std::string::npos);
  graph.launch(s);
  EXPECT_EQ(kept->to_host(), std::vector<int>(16, 7));
  graph.launch(s);
  EXPECT_EQ(kept->to_host(), std::vector<int>(16, 7));
  graph = weir::Graph();
  EXPECT_EQ(kept->to_host(), std::vector<int>(16, 7));  // the memory goes with the last of both
}

//  make: alloc -> fill -> use      end: copy -> free      one after the other, again and again
TEST_P(GraphsMemory, WhatOneGraphAllocatedAnotherOneFrees) {
  const std::size_t before = used();
  auto result = weir::zeros<int>(weir::pinned, 16);
  {
    std::optional<weir::Array<int>> kept;
    weir::Graph make = weir::capture(s, [&] {
      kept.emplace(weir::full<int>(s, 16, 3));
      weir::launch(s, weir::Extent{.size = 16, .name = "use"}, Plus{}, weir::inout(*kept), 4);
    });
    weir::Graph end = weir::capture(s, [&] {
      weir::copy(s, result, *kept);
      kept->free(s);
      EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { kept->free(s); }));
    });
    EXPECT_EQ(topology(end), "copy; free<copy");
    for (int i = 0; i < 3; ++i) {
      weir::fill(s, result, 0);
      make.launch(s);
      end.launch(s);
      s.synchronize();
      EXPECT_EQ(std::count(result.begin(), result.end(), 7), 16);
    }
    kept.reset();
    make = weir::Graph();
    end.launch(s);  // it owns the memory, too
    s.synchronize();
  }
  s.synchronize();
  EXPECT_EQ(used(), before);
}

TEST_P(GraphsMemory, WhatABuilderAllocatedAnotherOneFrees) {
  weir::GraphBuilder first(device());
  auto [x, begin] = first.allocate<int>(16);
  auto result = weir::zeros<int>(weir::pinned, 16);
  const auto filled = first.fill(x, 5);
  first.depends(filled, begin);
  weir::GraphBuilder second(device());
  const auto copied = second.copy(result, x);
  const auto freed = second.free(x);
  second.depends(freed, copied);
  const weir::Graph make = first.build();
  const weir::Graph end = second.build();
  for (int i = 0; i < 2; ++i) {
    make.launch(s);
    end.launch(s);
    s.synchronize();
    EXPECT_EQ(std::count(result.begin(), result.end(), 5), 16);
    weir::fill(s, result, 0);
  }
}

TEST_P(GraphsMemory, TheEndOfMemoryHoldsUpNoStream) {
  weir::Stream t(device());
  Meeting meeting(2);
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    {
      auto scratch = weir::full<int>(t, 64, 1);
      s.wait(t);
      weir::launch(s, weir::Extent{.size = 64, .name = "use"}, Plus{}, weir::inout(scratch), 1);
      meeting.attend(s);
    }
    meeting.attend(t);  // the stream whose array ended goes on while the other uses it
    s.wait(t);
  });
  EXPECT_EQ(topology(graph), "alloc; fill<alloc; use<fill; meet<use; free<fill,use; meet<fill");
  for (int i = 0; i < 3; ++i) {
    graph.launch(s);
    s.synchronize();
    EXPECT_TRUE(meeting.met());
    meeting.reset();
  }
}

TEST_P(GraphsMemory, MemoryThatEndedIsUsedAgainInTheSameGraph) {
  if (!on("cpu")) GTEST_SKIP() << "a driver that captures does not know where memory ends";
  const std::size_t before = used();
  auto result = weir::zeros<int>(weir::pinned, 2000);
  const int* addresses[3] = {};
  {
    weir::Graph graph = weir::capture(s, [&] {
      for (int i = 0; i < 3; ++i) {
        auto scratch = weir::full<int>(s, 1000 - static_cast<std::size_t>(i), 20 * (i + 1));
        addresses[i] = scratch.data();
        weir::launch(s, 1, Plus{}, weir::inout(scratch), i);
        weir::copy(s, result.slice(0, scratch.size()), scratch);
      }
    });
    EXPECT_EQ(addresses[1], addresses[0]);
    EXPECT_EQ(addresses[2], addresses[0]);
    s.synchronize();
    const std::size_t with = used();
    EXPECT_LT(with - before, 2 * 1000 * sizeof(int));
    for (int i = 0; i < 100; ++i) graph.launch(s);
    s.synchronize();
    EXPECT_EQ(result[0], 62);
    EXPECT_EQ(result[1], 60);
    EXPECT_EQ(result[998], 40);
    EXPECT_EQ(result[999], 20);
    EXPECT_EQ(used(), with);
  }
  s.synchronize();
  EXPECT_EQ(used(), before);
}

TEST_P(GraphsMemory, MemoryThatEndsInAnotherBranchIsNotUsedAgain) {
  weir::Stream t(device());
  auto result = weir::zeros<int>(s, 64);
  s.synchronize();
  const int* first = nullptr;
  const int* beside = nullptr;
  const int* behind = nullptr;
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    {
      auto scratch = weir::full<int>(s, 64, 1);
      first = scratch.data();
      weir::copy(s, result, scratch);
    }
    {
      auto scratch = weir::full<int>(t, 64, 2);  // may run at the same time
      beside = scratch.data();
    }
    t.wait(s);
    auto scratch = weir::full<int>(t, 64, 3);
    behind = scratch.data();
    s.wait(t);
  });
  EXPECT_NE(beside, first);
  if (on("cpu")) {
    EXPECT_TRUE(behind == first || behind == beside);
  }
  graph.launch(s);
  EXPECT_EQ(result.to_host(), std::vector<int>(64, 1));
}

TEST_P(GraphsMemory, MemoryUsedInsideABodyIsInUseUntilTheLoopHasEnded) {
  weir::Stream t(device());
  auto turns = weir::full<std::int32_t>(s, 1, 1);
  s.synchronize();
  const int* first = nullptr;
  const int* beside = nullptr;
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    {
      auto scratch = weir::full<int>(t, 64, 1);
      first = scratch.data();
      s.wait(t);
      weir::capture_while(s, turns, [&] {
        weir::launch(s, 64, Plus{}, weir::inout(scratch), 1);
        weir::launch(s, 1, Plus{}, weir::inout(turns), -1);
      });
    }
    auto scratch = weir::full<int>(t, 64, 2);  // the loop may be running
    beside = scratch.data();
    s.wait(t);
  });
  EXPECT_NE(beside, first);
  EXPECT_EQ(topology(graph).substr(0, 30), "alloc; fill<alloc; while<fill ");
}

TEST_P(GraphsMemory, MemoryOfALoopsBodyIsNotThatOfTheGraph) {
  auto turns = weir::full<std::int32_t>(s, 1, 3);
  auto result = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    auto outside = weir::full<int>(s, 16, 5);
    weir::capture_while(s, turns, [&] {
      {
        auto inside = weir::full<int>(s, 16, 1);
        weir::launch(s, 16, Plus{}, weir::inout(inside), 1);
        weir::copy(s, result, inside);
      }
      auto again = weir::full<int>(s, 16, 9);
      if (on("cpu")) {
        EXPECT_NE(again.data(), outside.data());
      }
      weir::launch(s, 1, Plus{}, weir::inout(turns), -1);
      weir::launch(s, 16, Plus{}, weir::inout(outside), 1);
    });
    weir::copy(s, result, outside);
  });
  for (int i = 0; i < 3; ++i) {
    weir::fill(s, turns, 3);
    graph.launch(s);
    EXPECT_EQ(result.to_host(), std::vector<int>(16, 8));
  }
}

TEST_P(GraphsMemory, ASecondLifeOfMemoryMayOutliveTheGraph) {
  const std::size_t before = used();
  std::optional<weir::Array<int>> kept;
  weir::Graph graph = weir::capture(s, [&] {
    { auto scratch = weir::full<int>(s, 100, 1); }
    kept = weir::full<int>(s, 100, 3);
    weir::launch(s, 100, Plus{}, weir::inout(*kept), 4);
  });
  Gate gate;
  gate.hold(s);
  graph.launch(s);
  graph = weir::Graph();  // with a replay pending
  gate.open();
  EXPECT_EQ(kept->to_host(), std::vector<int>(100, 7));
  weir::Array<int> others[4];
  for (auto& other : others) other = weir::full<int>(s, 100, 8);
  EXPECT_EQ(kept->to_host(), std::vector<int>(100, 7)) << "the memory was given away";
  for (auto& other : others) other = weir::Array<int>();
  kept.reset();
  device().synchronize();
  if (on("cpu")) {
    EXPECT_EQ(used(), before);
  }
}

TEST_P(GraphsMemory, AnArrayMayEndAfterItsStreamWasJoined) {
  weir::Stream t(device());
  auto result = weir::zeros<int>(s, 16);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    t.wait(s);
    const auto scratch = weir::full<int>(t, 16, 5);
    s.wait(t);
    weir::copy(s, result, scratch);
  });
  EXPECT_EQ(topology(graph), "alloc; fill<alloc; copy<fill; free<fill,copy");
  graph.launch(s);
  EXPECT_EQ(result.to_host(), std::vector<int>(16, 5));
}

TEST_P(GraphsMemory, ExplicitFreeInTheCapture) {
  weir::Graph graph = weir::capture(s, [&] {
    auto x = weir::zeros<int>(s, 16);
    x.free(s);
    EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { x.free(s); }));
    EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { weir::fill(s, x, 1); }));
  });
  EXPECT_EQ(topology(graph), "alloc; fill<alloc; free<fill");
}

TEST_P(GraphsMemory, PoolMemoryInTheCapture) {  // R138
  const weir::PoolRef pool = weir::get_pool(device());
  void* kept = nullptr;
  weir::Graph graph = weir::capture(s, [&] {
    void* data = pool.allocate(s, 256);
    pool.free(s, data);
    EXPECT_TRUE(fails_with(weir::Errc::already_freed, [&] { pool.free(s, data); }));
    kept = pool.allocate(s, 256);
  });
  EXPECT_EQ(graph.size(), 3u);
  graph.launch(s);
  pool.free(s, kept);
  graph.launch(s);
  s.synchronize();
  void* eager = pool.allocate(s, 256);
  weir::capture_begin(s);
  EXPECT_TRUE(fails_with(weir::Errc::invalid_value, [&] { pool.free(s, eager); }));
  EXPECT_EQ(weir::capture_end(s).size(), 0u);
  pool.free(s, eager);
}

TEST_P(GraphsMemory, MemoryOfACaptureIsNobodyElses) {
  Gate gate;
  auto victim = weir::full<int>(s, 64, 1);
  auto result = weir::zeros<int>(weir::pinned, 64);
  s.synchronize();
  gate.hold(s);
  weir::copy(s, result, victim);
  { auto gone = std::move(victim); }  // given back in the order of s, which still reads it
  weir::Stream t(device());
  weir::Graph graph = weir::capture(s, [&] { auto scratch = weir::full<int>(s, 64, 99); });
  graph.launch(t);
  t.synchronize();
  gate.open();
  s.synchronize();
  EXPECT_EQ(result[0], 1);
}

ON_EVERY_DEVICE(GraphsMemory);

}  // namespace
