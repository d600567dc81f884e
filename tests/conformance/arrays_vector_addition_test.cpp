// z = x + y in chunks on several streams gives what it gives on the default stream, ragged sizes too (M1).
#include "arrays_support.hpp"

using namespace weir_test;

class VectorAddition : public AnyDevice {};
ON_EVERY_DEVICE(VectorAddition);

namespace {

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const double> x, weir::View<const double> y,
                              weir::View<double> z) const {
    z[i] = x[i] + y[i];
  }
};

/// Pinned host arrays, and the result of the last run.
struct Problem {
  explicit Problem(std::size_t n)
      : x(weir::empty<double>(weir::pinned, n)),
        y(weir::empty<double>(weir::pinned, n)),
        z(weir::zeros<double>(weir::pinned, n)) {
    // By views: a checker is told of each element that is named.
    const auto xs = x.host_view(), ys = y.host_view();
    for (std::size_t i = 0; i < n; ++i) {
      xs[i] = 0.1 * static_cast<double>(i);
      ys[i] = 1.0 / static_cast<double>(i + 1);
    }
  }
  weir::Array<double> x, y, z;
};

/// Elements lo..hi: two copies up, the sum, one copy down, in the order of the stream.
void add_chunk(weir::StreamRef stream, const Problem& p, std::size_t lo, std::size_t hi) {
  auto x = weir::empty<double>(stream, hi - lo);
  auto y = weir::empty<double>(stream, hi - lo);
  auto z = weir::empty<double>(stream, hi - lo);
  weir::copy(stream, x, p.x.slice(lo, hi));
  weir::copy(stream, y, p.y.slice(lo, hi));
  weir::launch(stream, hi - lo, Add{}, weir::in(x), weir::in(y), weir::out(z));
  weir::copy(stream, p.z.slice(lo, hi), z);
}

std::vector<double> add_on(weir::Device device, std::size_t n, std::size_t stream_count) {
  Problem problem(n);
  if (stream_count == 0) {
    add_chunk(weir::legacy_stream(device), problem, 0, n);
    device.synchronize();
  } else {
    std::vector<weir::Stream> streams;
    for (std::size_t s = 0; s < stream_count; ++s) streams.emplace_back(device);
    const std::size_t chunk = (n + stream_count - 1) / stream_count;
    for (std::size_t s = 0; s < stream_count; ++s) {
      add_chunk(streams[s], problem, std::min(n, s * chunk), std::min(n, (s + 1) * chunk));
    }
    for (const weir::Stream& stream : streams) stream.synchronize();
  }
  return problem.z.to_host();
}

}  // namespace

// default:  [x up][y up][add][z down]
// streams:  [x0 up][y0 up][add][z0 down]
//           [x1 up][y1 up][add][z1 down]
//           ...                             the last chunk is shorter, or empty
TEST_P(VectorAddition, on_any_number_of_streams_equals_that_on_the_default_stream) {
  for (std::size_t n : {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{1000}, std::size_t{100003}}) {
    const std::vector<double> expected = add_on(device(), n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(expected[i], 0.1 * static_cast<double>(i) + 1.0 / static_cast<double>(i + 1));
    }
    for (std::size_t streams : {1, 2, 3, 5, 8, 16}) {
      ASSERT_EQ(add_on(device(), n, streams), expected) << n << " elements on " << streams << " streams";
    }
  }
}

TEST_P(VectorAddition, of_two_million_doubles_on_five_streams) {
  constexpr std::size_t n = 2'000'003;
  EXPECT_EQ(add_on(device(), n, 5), add_on(device(), n, 0));
}

// s: [hold]--[chunk 0]      the other chunk is done meanwhile: streams are unordered
// t: [chunk 1]
TEST_P(VectorAddition, chunks_of_different_streams_do_not_wait_for_each_other) {
  weir::Stream s(device());
  weir::Stream t(device());
  Problem problem(1001);
  Gate gate;
  gate.hold(s);
  add_chunk(s, problem, 0, 501);
  add_chunk(t, problem, 501, 1001);
  EXPECT_TRUE(returns_while_held(gate, [&] { t.synchronize(); }));
  EXPECT_EQ(problem.z[0], 0.0);
  EXPECT_EQ(problem.z[501], problem.x[501] + problem.y[501]);
  gate.open();
  s.synchronize();
  EXPECT_EQ(problem.z[0], problem.x[0] + problem.y[0]);
}
