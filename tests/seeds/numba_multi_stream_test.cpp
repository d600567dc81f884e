// Twins of the snippets and rules of "Multiple streams" in "CUDA programming with Python Numba": three ordering rules,
// and z = x + y on the default stream against five streams.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <span>
#include <tuple>
#include <vector>

#include <weir/weir.hpp>

#include "support/any_device.hpp"
#include "support/gate.hpp"

namespace {

using weir_test::eventually;
using weir_test::Gate;
using weir_test::Log;
using weir_test::returns_while_held;
using weir_test::stays;

struct VectorAdd {
  WEIR_KERNEL void operator()(std::size_t idx, weir::View<const double> a, weir::View<const double> b,
                              weir::View<double> result) const {
    result[idx] = a[idx] + b[idx];
  }
};

std::vector<double> uniform(double low, double high, std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> between(low, high);
  std::vector<double> values(n);
  std::generate(values.begin(), values.end(), [&] { return between(random); });
  return values;
}

/// The whole sum on the default stream, one operation after the other.
std::vector<double> add_on_the_default_stream(weir::Device device, const std::vector<double>& x,
                                              const std::vector<double>& y) {
  const weir::StreamRef stream = weir::legacy_stream(device);
  const auto x_device = weir::from(stream, x);
  const auto y_device = weir::from(stream, y);
  auto z_device = weir::empty<double>(stream, x.size());
  weir::launch(stream, x.size(), VectorAdd{}, weir::in(x_device), weir::in(y_device), weir::out(z_device));
  return z_device.to_host();
}

/// Part i of `count`; the last takes what does not divide.
std::pair<std::size_t, std::size_t> segment(std::size_t n, std::size_t count, std::size_t i) {
  const std::size_t segment_size = n / count;
  return {i * segment_size, i + 1 == count ? n : (i + 1) * segment_size};
}

/// Each stream copies its part in, adds, and copies it out, from and to memory of any kind.
template <class Host, class HostOut>
void add_on_streams(weir::Device device, const Host& x, const Host& y, HostOut& z, std::size_t number_of_streams) {
  const std::size_t n = std::size(z);
  auto z_device = weir::empty<double>(weir::legacy_stream(device), n);
  std::vector<weir::Stream> stream_list;
  for (std::size_t i = 0; i < number_of_streams; ++i) stream_list.emplace_back(device);

  for (std::size_t i = 0; i < number_of_streams; ++i) {
    const auto [begin, end] = segment(n, number_of_streams, i);
    const auto x_i_device = weir::from(stream_list[i], std::span(x).subspan(begin, end - begin));
    const auto y_i_device = weir::from(stream_list[i], std::span(y).subspan(begin, end - begin));
    const auto z_i_device = z_device.slice(begin, end);
    weir::launch(stream_list[i], end - begin, VectorAdd{}, weir::in(x_i_device), weir::in(y_i_device),
                 weir::out(z_i_device));
    weir::copy(stream_list[i], std::span(z).subspan(begin, end - begin), z_i_device);
  }
  device.synchronize();
}

class NumbaMultiStream : public weir_test::AnyDevice {};

// Rules (M2): all operations of one stream run in order.
//   stream 1   [held][kernel 1][kernel 2]
TEST_P(NumbaMultiStream, kernels_of_one_stream_run_in_order) {
  weir::Stream stream(device());
  const Log log;
  Gate gate;
  gate.hold(stream);
  for (int kernel = 1; kernel <= 20; ++kernel) log.note(stream, kernel);
  EXPECT_TRUE(stays(device(), [&] { return log.size() == 0; }));
  gate.open();
  stream.synchronize();
  std::vector<int> in_order;
  for (int kernel = 1; kernel <= 20; ++kernel) in_order.push_back(kernel);
  EXPECT_EQ(log.values(), in_order);
}

// Rules (M2): nothing orders kernel 2 and kernel 4, which are in different streams: either may be first.
//   stream 1   [kernel 1][kernel 2]
//   stream 2   [kernel 3][kernel 4]
TEST_P(NumbaMultiStream, kernels_of_different_streams_may_run_in_either_order) {
  weir::Stream stream1(device());
  weir::Stream stream2(device());
  const auto run_with_held = [&](weir::StreamRef held, weir::StreamRef free) {
    const Log log;
    Gate gate;
    gate.hold(held);
    for (int kernel : {1, 2}) log.note(stream1, kernel);
    for (int kernel : {3, 4}) log.note(stream2, kernel);
    EXPECT_TRUE(returns_while_held(gate, [&] { free.synchronize(); }));
    gate.open();
    held.synchronize();
    return log.values();
  };
  EXPECT_EQ(run_with_held(stream1, stream2), (std::vector<int>{3, 4, 1, 2}));
  EXPECT_EQ(run_with_held(stream2, stream1), (std::vector<int>{1, 2, 3, 4}));
}

// Rules (M2): the default stream begins after all other streams, and the others go on after it.
//   stream 1   [held a][1]               [4]
//   stream 2        [held b][2]          [5]
//   default                    [held c][3]
TEST_P(NumbaMultiStream, the_default_stream_waits_for_all_streams_and_they_for_it) {
  weir::Stream stream1(device());
  weir::Stream stream2(device());
  const weir::StreamRef default_stream = weir::legacy_stream(device());
  const Log log;
  Gate a;
  Gate b;
  Gate c;
  a.hold(stream1);
  log.note(stream1, 1);
  b.hold(stream2);
  log.note(stream2, 2);
  c.hold(default_stream);
  log.note(default_stream, 3);
  log.note(stream1, 4);
  log.note(stream2, 5);

  a.open();
  EXPECT_TRUE(eventually([&] { return log.size() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return c.begun() == 0; })) << "the default stream waits for stream 2";
  b.open();
  EXPECT_TRUE(eventually([&] { return c.begun() == 1; }));
  EXPECT_TRUE(stays(device(), [&] { return log.size() == 2; })) << "the others wait for the default stream";
  c.open();
  device().synchronize();

  std::vector<int> order = log.values();
  ASSERT_EQ(order.size(), 5u);
  EXPECT_EQ(std::vector<int>(order.begin(), order.begin() + 3), (std::vector<int>{1, 2, 3}));
  std::sort(order.begin() + 3, order.end());
  EXPECT_EQ(std::vector<int>(order.begin() + 3, order.end()), (std::vector<int>{4, 5}));
}

// Rules (M2): streams made non-blocking take no part in that.
TEST_P(NumbaMultiStream, the_default_stream_and_a_non_blocking_stream_are_independent) {
  weir::Stream stream(device(), {.blocking = false});
  const weir::StreamRef default_stream = weir::legacy_stream(device());
  const auto second_runs_while_first_is_held = [](weir::StreamRef first, weir::StreamRef second) {
    const Log log;
    Gate gate;
    gate.hold(first);
    log.note(second, 1);
    EXPECT_TRUE(returns_while_held(gate, [&] { second.synchronize(); }));
    EXPECT_EQ(log.size(), 1);
    gate.open();
    first.synchronize();
  };
  second_runs_while_first_is_held(stream, default_stream);
  second_runs_while_first_is_held(default_stream, stream);
}

/// A device, a number of elements and a number of streams.
class NumbaVectorAdd : public testing::TestWithParam<std::tuple<weir::Device, std::size_t, std::size_t>> {
 protected:
  weir::Device device() const { return std::get<0>(GetParam()); }
  std::size_t n() const { return std::get<1>(GetParam()); }
  std::size_t number_of_streams() const { return std::get<2>(GetParam()); }
};

// The complete program (M1): the default stream and the streams give equal results.
TEST_P(NumbaVectorAdd, streams_give_the_default_streams_result) {
  const std::vector<double> x = uniform(10, 20, n(), 1);
  const std::vector<double> y = uniform(10, 20, n(), 2);

  const std::vector<double> default_stream_result = add_on_the_default_stream(device(), x, y);
  std::vector<double> streams_result(n());
  add_on_streams(device(), x, y, streams_result, number_of_streams());

  EXPECT_TRUE(default_stream_result == streams_result);
  for (std::size_t i = 0; i < n(); ++i) ASSERT_EQ(streams_result[i], x[i] + y[i]) << "element " << i;
}

// The complete program (M1), from and to pinned memory, as the text asks for overlap.
TEST_P(NumbaVectorAdd, pinned_memory_gives_the_same_result) {
  const auto x = weir::from(weir::pinned, uniform(10, 20, n(), 3));
  const auto y = weir::from(weir::pinned, uniform(10, 20, n(), 4));
  auto z = weir::zeros<double>(weir::pinned, n());
  weir::synchronize();  // the host reads and writes x, y and z from here on

  const auto x_values = x.span();
  const auto y_values = y.span();
  auto z_values = z.span();
  add_on_streams(device(), x_values, y_values, z_values, number_of_streams());

  for (std::size_t i = 0; i < n(); ++i) ASSERT_EQ(z[i], x[i] + y[i]) << "element " << i;
}

std::string name_of_case(const testing::TestParamInfo<NumbaVectorAdd::ParamType>& info) {
  const auto& [device, n, streams] = info.param;
  return weir_test::test_suffix(device.name()) + "_" + std::to_string(n) + "_on_" + std::to_string(streams);
}

// 2,000,000 stands for the article's 20,000,000; the others are ragged: not multiples of the streams, or fewer than
// them.
INSTANTIATE_TEST_SUITE_P(on, NumbaVectorAdd,
                         testing::Combine(testing::ValuesIn(weir::devices()),
                                          testing::Values<std::size_t>(3, 1023, 100'003, 2'000'000),
                                          testing::Values<std::size_t>(1, 4, 5)),
                         name_of_case);

}  // namespace

ON_EVERY_DEVICE(NumbaMultiStream);
