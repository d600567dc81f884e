// Programs of NVIDIA's samples about graphs, written anew with Weir and checked as the samples check themselves.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

using namespace weir_test;

namespace port_graphs {

constexpr std::size_t parts = 64;

struct PartialSum {
  WEIR_KERNEL void operator()(std::size_t part, weir::View<const float> x, weir::View<double> sums) const {
    double sum = 0;
    for (std::size_t i = part; i < x.size(); i += parts) sum += static_cast<double>(x[i]);
    sums[part] = sum;
  }
};
struct FinalSum {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const double> sums, weir::View<double> result) const {
    result[0] = 0;
    for (std::size_t i = 0; i < sums.size(); ++i) result[0] += sums[i];
  }
};
struct NegativeSquare {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> out, weir::View<const float> in) const {
    out[i] = -in[i] * in[i];
  }
};
struct SetTo {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int32_t> word, int value) const { word[0] = value; }
};
struct CountDown {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int32_t> left, weir::View<std::int32_t> turns) const {
    --left[0];
    ++turns[0];
  }
};
/// A row of Jacobi's method for a matrix that is 2 beside the diagonal's n + 1, but 1 elsewhere: A x = b.
struct JacobiRow {
  WEIR_KERNEL void operator()(std::size_t row, weir::View<const double> b, weir::View<const double> x,
                              weir::View<double> next, weir::View<double> difference) const {
    double sum = b[row];
    const auto diagonal = static_cast<double>(x.size() + 1);
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (i != row) sum -= x[i];
    }
    next[row] = sum / diagonal;
    difference[row] = next[row] > x[row] ? next[row] - x[row] : x[row] - next[row];
  }
};

}  // namespace port_graphs

using namespace port_graphs;

class PortOfGraphs : public AnyDevice {};
ON_EVERY_DEVICE(PortOfGraphs);

// A reduction as a graph, once captured and once built by hand; a host function takes each result.
TEST_P(PortOfGraphs, simpleCudaGraphs) {
  constexpr std::size_t n = 1 << 16;
  const weir::Stream s(device()), side(device());
  auto input = weir::empty<float>(weir::pinned, n);
  double expected = 0;
  for (std::size_t i = 0; i < n; ++i) {
    input[i] = static_cast<float>(i % 127) / 127;
    expected += static_cast<double>(input[i]);
  }
  auto data = weir::empty<float>(s, n);
  auto sums = weir::empty<double>(s, parts), result = weir::empty<double>(s, 1);
  auto host = weir::zeros<double>(weir::pinned, 1);
  s.synchronize();
  std::vector<double> results;
  const double* const taken = host.data();
  const auto take = [&results, taken] { results.push_back(*taken); };

  const weir::Graph captured = weir::capture(s, [&] {
    side.wait(s);
    weir::copy(s, data, input);
    weir::fill(side, sums, 0.0);
    s.wait(side);
    weir::launch(s, parts, PartialSum{}, weir::in(data), weir::out(sums));
    weir::launch(s, 1, FinalSum{}, weir::in(sums), weir::out(result));
    weir::copy(s, host, result);
    weir::host_call(s, take);
  });
  for (int i = 0; i < 3; ++i) captured.launch(s);
  s.synchronize();

  weir::GraphBuilder builder(device(), weir::Dependencies::inferred);
  builder.copy(data, input);
  builder.fill(sums, 0.0);
  builder.launch(parts, PartialSum{}, weir::in(data), weir::out(sums));
  builder.launch(1, FinalSum{}, weir::in(sums), weir::out(result));
  builder.copy(host, result);
  builder.host_call(take, weir::in(host));
  const weir::Graph built = builder.build();
  for (int i = 0; i < 3; ++i) built.launch(s);
  s.synchronize();
  ASSERT_EQ(results.size(), 6u);
  for (const double one : results) EXPECT_NEAR(one, expected, 1e-6 * expected);
}

// Memory that lives inside a graph: each replay has it anew, without a call to the allocator.
TEST_P(PortOfGraphs, graphMemoryNodes) {
  constexpr std::size_t n = 10'000;
  std::vector<float> input(n);
  for (std::size_t i = 0; i < n; ++i) input[i] = static_cast<float>(i % 31);
  const weir::Stream s(device());
  const auto x = weir::from(s, input);
  auto out = weir::zeros<float>(s, n);
  s.synchronize();
  const weir::Graph graph = weir::capture(s, [&] {
    auto within = weir::empty<float>(s, n);
    weir::launch(s, n, NegativeSquare{}, weir::out(within), weir::in(x));
    weir::copy(s, out, within);
    within.free(s);
  });
  for (int i = 0; i < 4; ++i) {
    weir::fill(s, out, 0.0f);
    graph.launch(s);
  }
  const std::vector<float> found = out.to_host();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(found[i], -input[i] * input[i]) << i;
}

TEST_P(PortOfGraphs, graphConditionalNodes) {
  const weir::Stream s(device());
  auto condition = weir::zeros<std::int32_t>(s, 1), found = weir::zeros<std::int32_t>(s, 1);
  auto left = weir::zeros<std::int32_t>(s, 1), turns = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  const auto set = [&](weir::Array<std::int32_t>& word, int value) {
    weir::launch(s, 1, SetTo{}, weir::out(word), value);
  };
  const weir::Graph decides = weir::capture(s, [&] {
    weir::capture_if(
        s, condition, [&] { set(found, 1); }, [&] { set(found, 2); });
  });
  const weir::Graph loops = weir::capture(s, [&] {
    set(left, 10);
    weir::capture_while(s, left, [&] { weir::launch(s, 1, CountDown{}, weir::inout(left), weir::inout(turns)); });
  });
  const weir::Graph chooses = weir::capture(s, [&] {
    weir::capture_switch(
        s, condition, [&] { set(found, 10); }, [&] { set(found, 11); }, [&] { set(found, 12); });
  });
  for (const int value : {0, 1}) {
    set(condition, value);
    decides.launch(s);
    EXPECT_EQ(found.to_host()[0], value != 0 ? 1 : 2);
  }
  for (const int value : {0, 1, 2}) {
    set(condition, value);
    chooses.launch(s);
    EXPECT_EQ(found.to_host()[0], 10 + value);
  }
  loops.launch(s);
  loops.launch(s);
  EXPECT_EQ(turns.to_host()[0], 20);
}

// Jacobi's method: two graphs take turns, for what one writes the other reads, until nothing changes any more.
TEST_P(PortOfGraphs, jacobiCudaGraphs) {
  constexpr std::size_t n = 256;
  const weir::Stream s(device());
  std::vector<double> right(n);
  for (std::size_t i = 0; i < n; ++i) right[i] = static_cast<double>(2 * n);  // so that each x is 1
  const auto b = weir::from(s, right);
  auto x = weir::zeros<double>(s, n), next = weir::zeros<double>(s, n), difference = weir::zeros<double>(s, n);
  auto sum = weir::zeros<double>(s, 1), host = weir::zeros<double>(weir::pinned, 1);
  s.synchronize();
  const auto step = [&](weir::Array<double>& from, weir::Array<double>& to) {
    return weir::capture(s, [&] {
      weir::launch(s, n, JacobiRow{}, weir::in(b), weir::in(from), weir::out(to), weir::out(difference));
      weir::reduce(s, difference, sum);
      weir::copy(s, host, sum);
    });
  };
  const weir::Graph there = step(x, next), back = step(next, x);
  int turns = 0;
  do {
    (turns % 2 == 0 ? there : back).launch(s);
    s.synchronize();
    ++turns;
  } while (host[0] > 1e-6 && turns < 10'000);
  EXPECT_LT(turns, 10'000);
  for (const double value : (turns % 2 == 0 ? x : next).to_host()) ASSERT_NEAR(value, 1, 1e-6);
}
