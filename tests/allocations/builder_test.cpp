// Calls of a GraphBuilder with one allocation failing: each of them is made whole, or not at all.
#include <functional>
#include <string>
#include <utility>

#include "one_failure.hpp"
#include "support/gate.hpp"

namespace weir_test {
namespace {

const weir::Device cpu = weir::device("cpu");

struct Counting {
  Counted counted;
  void operator()(std::size_t) const {}
};

std::string nodes_of(const weir::GraphBuilder& b) { return weir::to_dot(b.build()); }

enum class Outcome { nothing_failed, made, refused };

/// Calls with the `n`-th allocation failing.
Outcome with_failing(std::int64_t n, const std::function<void()>& call) {
  fail_allocation(Whose::this_thread, n);
  try {
    call();
    return stop_failing() ? Outcome::made : Outcome::nothing_failed;
  } catch (const std::bad_alloc&) {
    EXPECT_TRUE(stop_failing()) << "bad_alloc, although nothing failed";
  } catch (const weir::Error& error) {
    EXPECT_TRUE(stop_failing()) << error.what();
    EXPECT_EQ(error.errc(), weir::Errc::out_of_memory) << error.what();
  }
  return Outcome::refused;
}

class EachCallOfABuilder : public testing::TestWithParam<weir::Dependencies> {
 protected:
  using Builder = weir::GraphBuilder;

  /// Three nodes, one behind the other if dependencies are inferred.
  Builder begun() {
    Builder b(cpu, GetParam());
    first = b.launch(8, Set{}, weir::out(x), 1);
    second = b.fill(x, 5);
    third = b.host_call([] {}, weir::in(x));
    return b;
  }

  /// Each allocation of `call` fails once, in a builder that was begun. Afterwards the builder has what it had, and the
  /// call makes of it what it would have made.
  void is_made_whole_or_not_at_all(const std::function<void(Builder&)>& call) {
    std::string whole;
    {
      Builder b = begun();
      call(b);
      whole = nodes_of(b);
    }
    for (std::int64_t n = 0;; ++n) {
      SCOPED_TRACE("allocation " + std::to_string(n));
      {
        Builder b = begun();
        const std::string before = nodes_of(b);
        const Outcome outcome = with_failing(n, [&] { call(b); });
        if (outcome == Outcome::nothing_failed) return;
        if (outcome == Outcome::refused) {
          ASSERT_EQ(nodes_of(b), before);
          replay(b);
          call(b);
        }
        ASSERT_EQ(nodes_of(b), whole);
        // What is inferred from here on is so with what has been said before.
        b.fill(x, 6);
        replay(b);
        if (GetParam() == weir::Dependencies::inferred) {
          ASSERT_EQ(x.to_host(), std::vector<int>(8, 6));
        }
      }
      ASSERT_TRUE(eventually([] { return Counted::alive.load() == 0; })) << "a worker ends the replays' last traces";
      ASSERT_LT(n, 5000);
    }
  }

  /// Without inferred dependencies the nodes are in each other's way: such a graph is made, and not run.
  void replay(const Builder& b) {
    const weir::Graph graph = b.build();
    if (GetParam() != weir::Dependencies::inferred) return;
    graph.launch(s);
    s.synchronize();
  }

  const weir::Stream s{cpu};
  weir::Array<int> x = weir::zeros<int>(s, 8);
  weir::Array<std::int32_t> condition = weir::full<std::int32_t>(s, 1, 1);
  weir::Node first, second, third;
};

INSTANTIATE_TEST_SUITE_P(Dependencies, EachCallOfABuilder,
                         testing::Values(weir::Dependencies::explicit_only, weir::Dependencies::inferred),
                         [](const auto& one) {
                           return one.param == weir::Dependencies::inferred ? "inferred" : "explicit";
                         });

TEST_P(EachCallOfABuilder, Launch) {
  is_made_whole_or_not_at_all([&](Builder& b) { b.launch(8, Set{}, weir::out(x), 2); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.launch(1, Counting{}); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.launch(0, Set{}, weir::out(x), 2); });
}

TEST_P(EachCallOfABuilder, CopyAndFill) {
  auto y = weir::zeros<int>(s, 8);
  s.synchronize();
  is_made_whole_or_not_at_all([&](Builder& b) { b.copy(y, x); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.fill(x.slice(2, 4), 7); });
}

TEST_P(EachCallOfABuilder, HostCall) {
  is_made_whole_or_not_at_all([&](Builder& b) { b.host_call([c = Counted{}] {}); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.host_call([c = Counted{}] {}, weir::inout(x)); });
}

TEST_P(EachCallOfABuilder, EventsAndNothing) {
  const weir::Event e(cpu);
  is_made_whole_or_not_at_all([&](Builder& b) { b.record(e); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.wait(e); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.empty(); });
}

TEST_P(EachCallOfABuilder, AChild) {
  const weir::Graph child = weir::capture(s, [&] {
    weir::launch(s, 8, Set{}, weir::out(x), 3);
    weir::fill(s, x, 4);
  });
  is_made_whole_or_not_at_all([&](Builder& b) { b.graph(child); });
}

TEST_P(EachCallOfABuilder, MemoryThatBegins) {
  is_made_whole_or_not_at_all([&](Builder& b) { static_cast<void>(b.allocate<int>(8)); });
}

TEST_P(EachCallOfABuilder, MemoryThatEnds) {
  for (std::int64_t n = 0;; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    Builder b = begun();
    auto [mine, made] = b.allocate<int>(8);
    const auto use = b.launch(8, Set{}, weir::out(mine), 1);
    if (GetParam() == weir::Dependencies::explicit_only) b.depends(use, made);
    const std::string before = nodes_of(b);
    const Outcome outcome = with_failing(n, [&, &array = mine] { b.free(array); });
    if (outcome == Outcome::nothing_failed) break;
    ASSERT_EQ(outcome, Outcome::refused);
    ASSERT_EQ(nodes_of(b), before);
    b.depends(b.free(mine), use);
    EXPECT_THROW(b.free(mine), weir::Error) << "twice";
    replay(b);
  }
}

TEST_P(EachCallOfABuilder, ControlFlow) {
  is_made_whole_or_not_at_all([&](Builder& b) {
    b.if_(
        condition,
        [&] {
          const auto inside = b.launch(8, Set{}, weir::out(x), 7);
          b.depends(b.fill(x, 8), inside);
        },
        [&](Builder& inner) { inner.switch_(condition, [&] { inner.launch(1, Counting{}); }); });
  });
}

TEST_P(EachCallOfABuilder, Depends) {
  is_made_whole_or_not_at_all([&](Builder& b) { b.depends(third, second); });
  is_made_whole_or_not_at_all([&](Builder& b) { b.depends(first, {}); });
  const auto all = [&](Builder& b) { b.depends(third, {first, second}); };
  if (GetParam() == weir::Dependencies::explicit_only) is_made_whole_or_not_at_all(all);
}

/// Many dependencies are looked up in another way than few.
TEST_P(EachCallOfABuilder, DependsWithManyDependencies) {
  constexpr int many = 80;
  for (std::int64_t n = 0;; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    Builder b(cpu, GetParam());
    std::vector<weir::Node> before;
    for (int i = 0; i < many; ++i) before.push_back(b.empty());
    const auto last = b.empty();
    for (int i = 0; i < many - 2; ++i) b.depends(last, before[static_cast<std::size_t>(i)]);
    const std::string had = nodes_of(b);
    const auto call = [&] { b.depends(last, {before[many - 2], before[many - 1]}); };
    const Outcome outcome = with_failing(n, call);
    if (outcome == Outcome::nothing_failed) break;
    ASSERT_EQ(outcome, Outcome::refused);
    ASSERT_EQ(nodes_of(b), had);
    call();
    const weir::Graph graph = b.build();
    ASSERT_EQ(graph.nodes().back().depends.size(), std::size_t{many});
  }
}

/// The same without a builder.
TEST(OneFailingAllocation, TheEndOfAnArrayInACaptureIsThereOrNot) {
  const weir::Stream s(cpu);
  for (std::int64_t n = 0;; ++n) {
    SCOPED_TRACE("allocation " + std::to_string(n));
    Outcome outcome{};
    const weir::Graph graph = weir::capture(s, [&] {
      auto x = weir::zeros<int>(s, 8);
      outcome = with_failing(n, [&] { x.free(s); });
      if (outcome == Outcome::refused) x.free(s);
      EXPECT_THROW(x.free(s), weir::Error);
    });
    ASSERT_EQ(graph.nodes().size(), 3U);
    if (outcome == Outcome::nothing_failed) break;
  }
}

}  // namespace
}  // namespace weir_test
