// Algorithms in graphs: each of them in every kind of body, and a solver that is one loop of them.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <weir/weir.hpp>

#include "graphs_support.hpp"
#include "support/any_device.hpp"
#include "support/errors.hpp"
#include "support/graphs.hpp"

namespace {

using namespace weir_test;
using Values = std::vector<std::int64_t>;
using Act = std::function<void()>;

struct TimesThree {
  WEIR_KERNEL std::int64_t operator()(std::int64_t v) const { return 3 * v; }
};
/// Associative, and does not commute.
struct LastOfBoth {
  template <class T>
  WEIR_KERNEL T operator()(const T&, const T& b) const {
    return b;
  }
};

constexpr int turns = 3;  // of a loop

class GraphsAlgorithms : public AnyDevice {
 protected:
  weir::Stream s{device()};
  weir::Array<std::int32_t> one = weir::full(s, 1, std::int32_t{1});
  weir::Array<std::int32_t> left = weir::zeros<std::int32_t>(s, 1);
  weir::Array<std::int32_t> count = weir::zeros<std::int32_t>(s, 1);

  void loop(const Act& body) {
    weir::fill(s, left, turns);
    weir::capture_while(s, left, [&] {
      body();
      weir::launch(s, 1, Plus{}, weir::inout(left), -1);
    });
  }

  struct Kind {
    const char* name;
    int times;  ///< that a replay runs the body
    std::function<weir::Graph(const Act&)> make;
  };
  weir::Graph capture(const Act& body) { return weir::capture(s, body); }
  weir::Graph child_of(const weir::Graph& child) {
    return capture([&] { child.launch(s); });
  }
  std::vector<Kind> kinds() {
    const Act nothing = [] {};
    return {{"no body", 1, [this](const Act& work) { return capture(work); }},
            {"if", 1, [this](const Act& work) { return capture([&] { weir::capture_if(s, one, work); }); }},
            {"else", 1,
             [this, nothing](const Act& work) {
               return capture([&] {
                 weir::fill(s, left, 0);
                 weir::capture_if(s, left, nothing, work);
               });
             }},
            {"switch", 1,
             [this, nothing](const Act& work) {
               return capture([&] { weir::capture_switch(s, one, nothing, work, nothing); });
             }},
            {"while", turns, [this](const Act& work) { return capture([&] { loop(work); }); }},
            {"switch in if in while", turns,
             [this, nothing](const Act& work) {
               return capture([&] {
                 loop([&] { weir::capture_if(s, one, [&] { weir::capture_switch(s, one, nothing, work); }); });
               });
             }},
            {"while in if", turns,
             [this](const Act& work) { return capture([&] { weir::capture_if(s, one, [&] { loop(work); }); }); }},
            {"child", 1, [this](const Act& work) { return child_of(capture(work)); }},
            {"child of a child", 1, [this](const Act& work) { return child_of(child_of(capture(work))); }},
            {"while in a child", turns, [this](const Act& work) { return child_of(capture([&] { loop(work); })); }},
            {"child in while", turns,
             [this](const Act& work) {
               const weir::Graph inner = capture(work);
               return capture([&] { loop([&] { inner.launch(s); }); });
             }},
            {"a builder's child", 1,
             [this](const Act& work) {
               weir::GraphBuilder b(device());
               b.graph(capture(work));
               return b.build();
             }},
            {"child in a builder's if", 1, [this](const Act& work) {
               const weir::Graph inner = capture(work);
               weir::GraphBuilder b(device());
               b.if_(one, [&](weir::GraphBuilder& body) { body.graph(inner); });
               return b.build();
             }}};
  }

  /// What an algorithm writes into `y`, recorded in every kind of body and replayed twice, with other elements of `x` each time.
  void in_every_kind_of_body(const char* algorithm, std::size_t results,
                             const std::function<void(weir::Array<std::int64_t>&, weir::Array<std::int64_t>&)>& work,
                             const std::function<Values(const Values&)>& expected) {
    for (const std::size_t n : {std::size_t{3}, std::size_t{20'000}}) {
      for (const Kind& kind : kinds()) {
        SCOPED_TRACE(std::string(algorithm) + " of " + std::to_string(n) + " in: " + kind.name);
        auto x = weir::zeros<std::int64_t>(s, n);
        auto y = weir::zeros<std::int64_t>(s, results == 0 ? n : results);
        s.synchronize();
        const weir::Graph graph = kind.make([&] {
          work(x, y);
          weir::launch(s, 1, Plus{}, weir::inout(count), 1);
        });
        for (const std::int64_t first : {1, 50}) {
          Values values(n);
          std::iota(values.begin(), values.end(), first);
          weir::fill(s, y, -1);
          weir::fill(s, count, 0);
          weir::copy(s, x, values);
          graph.launch(s);
          ASSERT_TRUE(y.to_host() == expected(values));
          ASSERT_EQ(count.to_host()[0], kind.times);
        }
      }
    }
  }
};

TEST_P(GraphsAlgorithms, transform_in_every_kind_of_body) {
  in_every_kind_of_body(
      "transform", 0, [&](auto& x, auto& y) { weir::transform(s, x, y, TimesThree{}); },
      [](Values v) {
        for (std::int64_t& one : v) one *= 3;
        return v;
      });
}

TEST_P(GraphsAlgorithms, transform_of_two_in_every_kind_of_body) {
  in_every_kind_of_body(
      "transform of two", 0, [&](auto& x, auto& y) { weir::transform(s, x, x, y, weir::Multiplies{}); },
      [](Values v) {
        for (std::int64_t& one : v) one *= one;
        return v;
      });
}

TEST_P(GraphsAlgorithms, reduce_in_every_kind_of_body) {
  in_every_kind_of_body(
      "reduce", 1, [&](auto& x, auto& y) { weir::reduce(s, x, y); },
      [](const Values& v) { return Values{std::accumulate(v.begin(), v.end(), std::int64_t{0})}; });
}

TEST_P(GraphsAlgorithms, reduce_in_order_in_every_kind_of_body) {
  in_every_kind_of_body(
      "reduce in order", 1, [&](auto& x, auto& y) { weir::reduce(s, x, y, LastOfBoth{}); },
      [](const Values& v) { return Values{v.back()}; });
}

TEST_P(GraphsAlgorithms, inclusive_scan_in_every_kind_of_body) {
  in_every_kind_of_body(
      "inclusive_scan", 0, [&](auto& x, auto& y) { weir::inclusive_scan(s, x, y); },
      [](const Values& v) {
        Values sums(v.size());
        std::partial_sum(v.begin(), v.end(), sums.begin());
        return sums;
      });
}

TEST_P(GraphsAlgorithms, exclusive_scan_in_every_kind_of_body) {
  in_every_kind_of_body(
      "exclusive_scan", 0, [&](auto& x, auto& y) { weir::exclusive_scan(s, x, y, 5); },
      [](const Values& v) {
        Values sums(v.size());
        std::exclusive_scan(v.begin(), v.end(), sums.begin(), std::int64_t{5});
        return sums;
      });
}

TEST_P(GraphsAlgorithms, sort_in_every_kind_of_body) {
  in_every_kind_of_body(
      "sort", 0,
      [&](auto& x, auto& y) {
        weir::copy(s, y, x);
        weir::sort(s, y, weir::Greater{});
      },
      [](Values v) {
        std::sort(v.begin(), v.end(), weir::Greater{});
        return v;
      });
}

struct ToWide {
  WEIR_KERNEL std::int64_t operator()(std::int32_t v) const { return v; }
};
struct InMiddle {
  WEIR_KERNEL bool operator()(std::int64_t v) const { return v % 3 == 1; }
};
TEST_P(GraphsAlgorithms, partition_histogram_and_reduce_by_key_in_every_kind_of_body) {
  in_every_kind_of_body(
      "partition, histogram, reduce_by_key", 3,
      [&](auto& x, auto& y) {
        const auto parts = weir::empty<std::int64_t>(s, x.size());
        const auto keys = weir::empty<std::int64_t>(s, x.size());
        const auto sums = weir::empty<std::int64_t>(s, x.size());
        const auto counts = weir::empty<std::int32_t>(s, 10);
        weir::partition(s, x, parts, y.slice(0, 1), InMiddle{});
        weir::histogram(s, parts, counts, 0, 100);
        weir::transform(s, counts.slice(0, 1), y.slice(1, 2), ToWide{});
        weir::reduce_by_key(s, x, parts, keys, sums, y.slice(2, 3));
      },
      [](const Values& v) {
        const auto in_middle = std::count_if(v.begin(), v.end(), InMiddle{});
        const auto low = std::count_if(v.begin(), v.end(), [](std::int64_t one) { return one >= 0 && one < 10; });
        return Values{in_middle, low, static_cast<std::int64_t>(v.size())};
      });
}

TEST_P(GraphsAlgorithms, are_nodes_of_a_builder) {
  for (const auto dependencies : {weir::Dependencies::explicit_only, weir::Dependencies::inferred}) {
    const std::size_t n = 10'000;
    auto x = weir::zeros<std::int64_t>(s, n), y = weir::zeros<std::int64_t>(s, n), z = weir::zeros<std::int64_t>(s, n);
    auto sums = weir::zeros<std::int64_t>(s, 2);
    s.synchronize();
    weir::GraphBuilder builder(device(), dependencies);
    std::vector<weir::Node> chain = {builder.transform(x, y, TimesThree{}),
                                     builder.transform(x, y, y, weir::Plus{}),
                                     builder.inclusive_scan(y, x),
                                     builder.exclusive_scan(y, z, 5),
                                     builder.reduce(y, sums.slice(0, 1)),
                                     builder.reduce(x, sums.slice(1, 2), weir::Maximum{}),
                                     builder.capture([&](weir::StreamRef on) { weir::sort(on, x, weir::Greater{}); })};
    if (dependencies == weir::Dependencies::explicit_only) {
      for (std::size_t i = 1; i < chain.size(); ++i) builder.depends(chain[i], chain[i - 1]);
    }
    const weir::Graph graph = builder.build();
    weir::fill(s, x, 1);
    graph.launch(s);
    EXPECT_EQ(sums.to_host(s), (Values{40'000, 40'000}));
    EXPECT_EQ(x.to_host(s)[1], 39'996);
    EXPECT_EQ(z.to_host(s)[0], 5);
    EXPECT_EQ(z.to_host(s)[n - 1], 40'001);
  }
}

TEST_P(GraphsAlgorithms, that_a_builder_refuses_leave_it_as_it_was) {
  auto three = weir::zeros<std::int64_t>(s, 3), four = weir::zeros<std::int64_t>(s, 4);
  weir::GraphBuilder builder(device());
  EXPECT_TRUE(fails_with(weir::Errc::wrong_shape, [&] { builder.transform(three, four, TimesThree{}); },
                         {"weir::GraphBuilder::transform", "graphs_algorithms_test.cpp"}));
  EXPECT_TRUE(builder.build().empty());
}

// Each call has arguments of its own, and scratch memory that another call may have had.
TEST_P(GraphsAlgorithms, several_of_one_kind_in_every_kind_of_body) {
  in_every_kind_of_body(
      "several", 4,
      [&](auto& x, auto& y) {
        weir::reduce(s, x, y.slice(0, 1));
        weir::reduce(s, x, y.slice(1, 2), weir::Maximum{});
        weir::reduce(s, x.slice(0, 2), y.slice(2, 3));
        auto sums = weir::empty<std::int64_t>(s, x.size());
        weir::inclusive_scan(s, x, sums);
        weir::inclusive_scan(s, sums, sums, weir::Maximum{});
        weir::reduce(s, sums, y.slice(3, 4), weir::Minimum{});
      },
      [](const Values& v) {
        return Values{std::accumulate(v.begin(), v.end(), std::int64_t{0}), v.back(), v[0] + v[1], v[0]};
      });
}

// Other code does an algorithm's work there, which can be skipped.
TEST_P(GraphsAlgorithms, behind_a_failed_host_function_nothing_is_written) {
  bool fails = false;
  auto x = weir::full(s, 5000, std::int64_t{2});
  auto y = weir::zeros<std::int64_t>(s, 2);
  s.synchronize();
  const weir::Graph graph = capture([&] {
    weir::host_call(s, [&fails] {
      if (fails) throw std::runtime_error("no luck");
    });
    weir::reduce(s, x, y.slice(0, 1));
    weir::capture_if(s, one, [&] { weir::reduce(s, x, y.slice(1, 2)); });
  });
  graph.launch(s);
  EXPECT_EQ(y.to_host(), (Values{10'000, 10'000}));
  fails = true;
  weir::fill(s, y, 7);
  s.synchronize();
  graph.launch(s);
  EXPECT_THROW(s.synchronize(), weir::Error);
  EXPECT_EQ(y.to_host(), (Values{7, 7}));
}

//  A x = b by conjugate gradients, as one graph: the loop ends when the residual is small.

struct Laplace {  ///< (2 + shift) on the diagonal, -1 beside it
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> p, weir::View<double> to) const {
    const double before = i == 0 ? 0.0 : p[i - 1];
    const double behind = i + 1 == p.size() ? 0.0 : p[i + 1];
    to[i] = 2.5 * p[i] - before - behind;
  }
};
struct Ratio {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double> a, weir::View<const double> b,
                              weir::View<double> to) const {
    to[0] = a[0] / b[0];
  }
};
struct Step {
  double sign;
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> by, weir::View<const double> p,
                              weir::View<double> x) const {
    x[i] += sign * by[0] * p[i];
  }
};
struct Turn {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> by, weir::View<const double> r,
                              weir::View<double> p) const {
    p[i] = r[i] + by[0] * p[i];
  }
};
struct GoOn {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double> residual, weir::View<std::int32_t> go,
                              weir::View<std::int32_t> rounds) const {
    rounds[0] += 1;
    go[0] = residual[0] > 1e-20 && rounds[0] < 1000 ? 1 : 0;
  }
};

TEST_P(GraphsAlgorithms, conjugate_gradients_in_one_loop) {
  for (const std::size_t n : {std::size_t{10}, std::size_t{10'000}}) {
    SCOPED_TRACE(n);
    auto b = weir::zeros<double>(s, n);
    auto x = weir::zeros<double>(s, n);
    auto r = weir::zeros<double>(s, n);
    auto p = weir::zeros<double>(s, n);
    auto ap = weir::zeros<double>(s, n);
    auto products = weir::zeros<double>(s, n);
    auto before = weir::zeros<double>(s, 1);
    auto now = weir::zeros<double>(s, 1);
    auto curve = weir::zeros<double>(s, 1);
    auto by = weir::zeros<double>(s, 1);
    s.synchronize();
    const auto dot = [&](const auto& u, const auto& v, const auto& to) {
      weir::transform(s, u, v, products, weir::Multiplies{});
      weir::reduce(s, products, to);
    };
    const weir::Graph solver = weir::capture(s, [&] {
      weir::fill(s, x, 0.0);
      weir::fill(s, count, 0);
      weir::fill(s, left, 1);
      weir::copy(s, r, b);
      weir::copy(s, p, r);
      dot(r, r, before);
      weir::capture_while(s, left, [&] {
        weir::launch(s, n, Laplace{}, weir::in(p), weir::out(ap));
        dot(p, ap, curve);
        weir::launch(s, 1, Ratio{}, weir::in(before), weir::in(curve), weir::out(by));
        weir::launch(s, n, Step{1}, weir::in(by), weir::in(p), weir::inout(x));
        weir::launch(s, n, Step{-1}, weir::in(by), weir::in(ap), weir::inout(r));
        dot(r, r, now);
        weir::launch(s, 1, Ratio{}, weir::in(now), weir::in(before), weir::out(by));
        weir::launch(s, n, Turn{}, weir::in(by), weir::in(r), weir::inout(p));
        weir::copy(s, before, now);
        weir::launch(s, 1, GoOn{}, weir::in(now), weir::out(left), weir::inout(count));
      });
    });
    for (const double scale : {1.0, -3.0}) {
      std::vector<double> right(n);
      for (std::size_t i = 0; i < n; ++i) right[i] = scale * std::sin(0.1 * static_cast<double>(i + 1));
      weir::copy(s, b, right);
      solver.launch(s);
      const std::vector<double> solution = x.to_host();
      for (std::size_t i = 0; i < n; ++i) {
        const double left_of = i == 0 ? 0.0 : solution[i - 1];
        const double right_of = i + 1 == n ? 0.0 : solution[i + 1];
        ASSERT_NEAR(2.5 * solution[i] - left_of - right_of, right[i], 1e-8) << i;
      }
      EXPECT_GT(count.to_host()[0], 3);
      EXPECT_LT(count.to_host()[0], 1000);
    }
  }
}

ON_EVERY_DEVICE(GraphsAlgorithms);

}  // namespace
