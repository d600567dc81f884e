// Programs of NVIDIA's samples about streams, written anew with Weir and checked as the samples check themselves.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

#include "support/any_device.hpp"

using namespace weir_test;

namespace port_streams {

struct Increment {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> data, int by) const { data[i] += by; }
};
struct VectorAdd {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> a, weir::View<const float> b,
                              weir::View<float> c) const {
    c[i] = a[i] + b[i];
  }
};
/// As simpleStreams: a piece of work that is repeated, so that kernels last.
struct Accumulate {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> data, weir::View<const int> factor, int rounds) const {
    for (int round = 0; round < rounds; ++round) data[i] += factor[0];
  }
};
struct Note {
  WEIR_KERNEL void operator()(std::size_t, weir::View<int> notes, int place, int value) const {
    notes[static_cast<std::size_t>(place)] += value;
  }
};
struct Sum {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const int> notes, weir::View<int> total) const {
    total[0] = 0;
    for (std::size_t i = 0; i < notes.size(); ++i) total[0] += notes[i];
  }
};
struct Twice {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> from, weir::View<float> to) const {
    to[i] = 2 * from[i];
  }
};

}  // namespace port_streams

using namespace port_streams;

class PortOfStreams : public AnyDevice {};
ON_EVERY_DEVICE(PortOfStreams);

TEST_P(PortOfStreams, vectorAdd) {
  constexpr std::size_t n = 50'000;
  std::vector<float> a(n), b(n);
  for (std::size_t i = 0; i < n; ++i) {
    a[i] = static_cast<float>(i % 97) / 97;
    b[i] = static_cast<float>(i % 89) / 89;
  }
  const weir::Stream s(device());
  const auto x = weir::from(s, a), y = weir::from(s, b);
  auto z = weir::empty<float>(s, n);
  weir::launch(s, n, VectorAdd{}, weir::in(x), weir::in(y), weir::out(z));
  const std::vector<float> c = z.to_host();
  for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(c[i], a[i] + b[i], 1e-5) << i;
}

// The host goes on while the device copies and computes, and counts until the event says that all of it is over.
TEST_P(PortOfStreams, asyncAPI) {
  constexpr std::size_t n = 1 << 20;
  constexpr int value = 26;
  auto host = weir::zeros<int>(weir::pinned, n);
  const weir::Stream s(device());
  auto data = weir::empty<int>(s, n);
  const weir::TimedEvent start = s.record_timed();
  weir::copy(s, data, host);
  weir::launch(s, n, Increment{}, weir::inout(data), value);
  weir::copy(s, host, data);
  const weir::TimedEvent stop = s.record_timed();
  std::uint64_t counter = 0;
  while (!stop.done()) ++counter;
  EXPECT_GE(weir::elapsed(start, stop).count(), 0);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(host[i], value) << i << ", " << counter << " questions";
}

TEST_P(PortOfStreams, simpleStreams) {
  constexpr std::size_t n = 1 << 18, streams = 4;
  constexpr int rounds = 50, factor_value = 5;
  auto host = weir::empty<int>(weir::pinned, n);
  const auto factor = weir::full<int>(weir::legacy_stream(device()), 1, factor_value);
  auto data = weir::empty<int>(weir::legacy_stream(device()), n);
  std::vector<weir::Stream> all;
  for (std::size_t i = 0; i < streams; ++i) all.emplace_back(device());
  weir::fill(weir::legacy_stream(device()), data, 0);
  for (std::size_t i = 0; i < streams; ++i) {
    const std::size_t begin = i * n / streams, end = (i + 1) * n / streams;
    weir::launch(all[i], end - begin, Accumulate{}, weir::inout(data.slice(begin, end)), weir::in(factor), rounds);
  }
  for (std::size_t i = 0; i < streams; ++i) {
    const std::size_t begin = i * n / streams, end = (i + 1) * n / streams;
    weir::copy(all[i], host.slice(begin, end), data.slice(begin, end));
  }
  device().synchronize();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(host[i], rounds * factor_value) << i;
}

// Copies in, kernels and copies out of several streams at a time.
TEST_P(PortOfStreams, simpleMultiCopy) {
  constexpr std::size_t n = 1 << 16, streams = 4;
  struct Lane {
    weir::Stream stream;
    weir::Array<int> in, out, data, result;
    weir::Event cycle_done;
  };
  std::vector<Lane> lanes;
  for (std::size_t i = 0; i < streams; ++i) {
    weir::Stream s(device());
    auto in = weir::empty<int>(weir::pinned, n), out = weir::empty<int>(weir::pinned, n);
    for (std::size_t k = 0; k < n; ++k) in[k] = static_cast<int>(k + i);
    auto data = weir::empty<int>(s, n), result = weir::empty<int>(s, n);
    lanes.push_back(
        {std::move(s), std::move(in), std::move(out), std::move(data), std::move(result), weir::Event(device())});
  }
  for (std::size_t turn = 0; turn < 3 * streams; ++turn) {
    Lane& lane = lanes[turn % streams];
    lane.cycle_done.synchronize();  // of its turn before, at once in the first
    weir::copy(lane.stream, lane.data, lane.in);
    weir::launch(lane.stream, n, Increment{}, weir::inout(lane.data), 1);
    weir::copy(lane.stream, lane.result, lane.data);
    weir::copy(lane.stream, lane.out, lane.result);
    lane.stream.record(lane.cycle_done);
  }
  device().synchronize();
  for (const Lane& lane : lanes) {
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(lane.out[i], lane.in[i] + 1) << i;
  }
}

// Each workload is checked by a host function in its own stream, as soon as its copy is back.
TEST_P(PortOfStreams, simpleCallback) {
  constexpr std::size_t n = 100'000, workloads = 8;
  std::vector<weir::Stream> streams;
  std::vector<weir::Array<int>> host, data;
  std::vector<int> right(workloads, 0);
  for (std::size_t i = 0; i < workloads; ++i) {
    streams.emplace_back(device());
    host.push_back(weir::empty<int>(weir::pinned, n));
    for (std::size_t k = 0; k < n; ++k) host[i][k] = static_cast<int>(k * i);
    data.push_back(weir::empty<int>(streams[i], n));
  }
  for (std::size_t i = 0; i < workloads; ++i) {
    weir::copy(streams[i], data[i], host[i]);
    weir::launch(streams[i], n, Increment{}, weir::inout(data[i]), 1);
    weir::copy(streams[i], host[i], data[i]);
    weir::host_call(streams[i], [values = host[i].data(), result = &right[i], i] {
      *result = 1;
      for (std::size_t k = 0; k < n; ++k) *result &= values[k] == static_cast<int>(k * i) + 1 ? 1 : 0;
    });
  }
  device().synchronize();
  EXPECT_EQ(std::accumulate(right.begin(), right.end(), 0), static_cast<int>(workloads));
}

// Kernels in a stream each; the last one comes behind all of them by events.
TEST_P(PortOfStreams, concurrentKernels) {
  constexpr int kernels = 8;
  const weir::Stream last(device());
  auto notes = weir::zeros<int>(last, kernels), total = weir::zeros<int>(last, 1);
  last.synchronize();
  std::vector<weir::Stream> streams;
  std::vector<weir::Event> done;
  for (int i = 0; i < kernels; ++i) {
    streams.emplace_back(device());
    weir::launch(streams.back(), 1, Note{}, weir::inout(notes.slice(0, kernels)), i, i + 1);
    done.push_back(streams.back().record());
  }
  for (const weir::Event& event : done) last.wait(event);
  weir::launch(last, 1, Sum{}, weir::in(notes), weir::out(total));
  EXPECT_EQ(total.to_host()[0], kernels * (kernels + 1) / 2);
}

// Pairs of kernels, depth first: a false order between streams would still give the sum, a lost one would not.
TEST_P(PortOfStreams, simpleHyperQ) {
  constexpr int streams = 32;
  const weir::Stream last(device());
  auto notes = weir::zeros<int>(last, streams), total = weir::zeros<int>(last, 1);
  last.synchronize();
  std::vector<weir::Stream> all;
  for (int i = 0; i < streams; ++i) {
    all.emplace_back(device());
    weir::launch(all.back(), 1, Note{}, weir::inout(notes), i, 1);
    weir::launch(all.back(), 1, Note{}, weir::inout(notes), i, 2);
    last.wait(all.back());
  }
  weir::launch(last, 1, Sum{}, weir::in(notes), weir::out(total));
  EXPECT_EQ(total.to_host()[0], 3 * streams);
}

TEST_P(PortOfStreams, StreamPriorities) {
  constexpr std::size_t n = 1 << 20;
  const weir::PriorityRange range = device().properties().stream_priorities;
  const weir::Stream low(device(), {.priority = range.least}), high(device(), {.priority = range.greatest});
  auto much = weir::zeros<int>(low, n), little = weir::zeros<int>(high, 1024);
  for (int i = 0; i < 8; ++i) weir::launch(low, n, Increment{}, weir::inout(much), 1);
  for (int i = 0; i < 8; ++i) weir::launch(high, little.size(), Increment{}, weir::inout(little), 2);
  EXPECT_EQ(little.to_host(), std::vector<int>(1024, 16));
  EXPECT_EQ(much.to_host(), std::vector<int>(n, 8));
}

// One stream and one array go from thread to thread.
TEST_P(PortOfStreams, threadMigration) {
  constexpr std::size_t n = 4096;
  const weir::Stream s(device());
  auto data = weir::zeros<int>(s, n);
  for (int i = 0; i < 8; ++i) {
    std::thread([&] {
      const weir::ScopedDevice current(device());
      weir::launch(s, n, Increment{}, weir::inout(data), i);
      if (i % 2 == 0) s.synchronize();
    }).join();
  }
  EXPECT_EQ(data.to_host(), std::vector<int>(n, 28));
}

TEST_P(PortOfStreams, streamOrderedAllocation) {
  constexpr std::size_t n = 1 << 18;
  const weir::Stream s(device());
  const weir::PoolRef pool = weir::default_pool(device());
  const std::size_t before = pool.release_threshold();
  pool.set_release_threshold(std::size_t{1} << 30);
  std::vector<float> a(n, 1.5f), b(n, 2.25f);
  for (int turn = 0; turn < 3; ++turn) {
    auto x = weir::from(s, a), y = weir::from(s, b), z = weir::empty<float>(s, n);
    weir::launch(s, n, VectorAdd{}, weir::in(x), weir::in(y), weir::out(z));
    x.free(s);
    y.free(s);
    EXPECT_EQ(z.to_host(s), std::vector<float>(n, 3.75f));
    z.free(s);
  }
  s.synchronize();
  pool.set_release_threshold(before);
}

class PortOfPeers : public TwoDevices {};
ON_EVERY_BACKEND(PortOfPeers);

// To the other device, doubled there, back, and doubled again.
TEST_P(PortOfPeers, simpleP2P) {
  constexpr std::size_t n = 1 << 18;
  const weir::Stream s0(first()), s1(second());
  auto host = weir::empty<float>(weir::pinned, n);
  for (std::size_t i = 0; i < n; ++i) host[i] = static_cast<float>(i % 4096);
  auto g0 = weir::empty<float>(s0, n), back = weir::empty<float>(s0, n);
  auto g1 = weir::empty<float>(s1, n), twice = weir::empty<float>(s1, n);
  weir::copy(s0, g0, host);
  s1.wait(s0);
  weir::copy(s1, g1, g0);
  weir::launch(s1, n, Twice{}, weir::in(g1), weir::out(twice));
  s0.wait(s1);
  weir::copy(s0, back, twice);
  weir::launch(s0, n, Twice{}, weir::in(back), weir::out(g0));
  weir::copy(s0, host, g0);
  s0.synchronize();
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(host[i], 4 * static_cast<float>(i % 4096)) << i;
}
