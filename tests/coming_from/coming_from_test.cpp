// The calls of docs/coming_from.md, each as that page has it: scripts/check_claims compares the two.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/collectives.hpp>
#include <weir/ipc.hpp>
#include <weir/weir.hpp>

namespace {

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> x, weir::View<const float> y,
                              weir::View<float> z) const {
    z[i] = x[i] + y[i];
  }
};

struct Count {
  WEIR_KERNEL void operator()(std::size_t, weir::View<float> z) const { weir::atomic_add(z(0), 1.0f); }
};

struct Negate {
  WEIR_KERNEL void operator()(int i, weir::View<float> z) const { z[i] = -z[i]; }
};

struct Double {
  WEIR_KERNEL void operator()(float& v) const { v *= 2; }
};

struct Twice {
  WEIR_KERNEL float operator()(float v) const { return 2 * v; }
};

struct Stop {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int32_t> go) const { go[0] = 0; }
};

struct Ticks {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int64_t> ticks) const { ticks[0] = weir::device_clock(); }
};

struct BlockSums {
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<const float> x, weir::View<float> sums) const {
    const float sum = block.reduce([&](std::size_t t) {
      const std::size_t i = block.global_index(t);
      return i < x.size() ? x[i] : 0.0f;
    });
    block.each([&](std::size_t t) {
      if (t == 0) sums[block.index()] = sum;
    });
  }
};

struct IsOne {
  WEIR_KERNEL bool operator()(float v) const { return v == 1; }
};

constexpr std::size_t n = 1000;

struct ComingFrom : testing::Test {
  weir::Device device = weir::device("cpu");
  weir::Stream stream{device}, other{device}, third{device};
  weir::Event event{device}, done{device};
  weir::TimedEvent start{device}, end{device};
  std::vector<float> values = std::vector<float>(n, 2.0f);
  weir::Array<float> host = weir::full(weir::pinned, n, 1.0f);
  weir::Array<float> x = weir::full(stream, n, 1.0f), y = weir::full(stream, n, 2.0f),
                     z = weir::zeros<float>(stream, n);
  weir::Array<float> sum = weir::zeros<float>(stream, 1);

  weir::Graph add() {
    weir::Graph graph = weir::capture(stream, [&] { weir::launch(n, Add{}, weir::in(x), weir::in(y), weir::out(z)); });
    return graph;
  }
  void expect_sums() { EXPECT_EQ(z.to_host(), std::vector<float>(n, 3.0f)); }
};

TEST_F(ComingFrom, devices) {
  EXPECT_EQ(weir::devices("cuda").size() > 0, weir::why_absent("cuda").empty());
  if (weir::devices("cuda").size() > 0) weir::device("cuda:0");
  weir::set_default_device(device);
  EXPECT_EQ(device.properties().backend, "cpu");
  { weir::ScopedDevice scope(device); }
  device.synchronize();
  weir::synchronize_device(device);
  weir::synchronize();
  weir::default_pool(device).trim(0);
  EXPECT_EQ(weir::kernel_info(device, Add{}).blocks_per_multiprocessor(256), 1u);
  weir::set_wait_mode(device, weir::WaitMode::block);
  weir::set_wait_mode(device, weir::WaitMode::automatic);
  const weir::Device second = weir::devices("cpu").back();
  if (!(second == device) && weir::can_access_peer(device, second)) weir::enable_peer_access(device, second);
}

TEST_F(ComingFrom, streams) {
  {
    weir::Stream stream(device);
    weir::Stream free(device, {.blocking = false});
    weir::Stream urgent(device, {.priority = -1});
    EXPECT_FALSE(free.blocking());
    EXPECT_EQ(urgent.priority(), -1);
    EXPECT_EQ(stream.priority(), 0);
    const weir::ScopedDevice here(device);
    weir::Stream copies({.name = "copies"});
    EXPECT_EQ(copies.name(), "copies");
  }
  EXPECT_FALSE(weir::legacy_stream(device) == weir::per_thread_stream(device));
  {
    weir::ScopedStream scope(stream);
    EXPECT_TRUE(weir::get_stream() == stream);
  }
  const weir::StreamRef before = weir::get_stream(device);
  weir::set_stream(stream);
  EXPECT_TRUE(weir::get_stream(device) == stream);
  weir::set_stream(before);
  { weir::AutoSynchronize scope(stream); }
  stream.wait(other);
  stream.wait({other, third});
  stream.synchronize();
  weir::synchronize_stream(stream);
  EXPECT_TRUE(stream.done());
}

TEST_F(ComingFrom, events) {
  stream.record(event);
  stream.wait(event);
  stream.wait({event, done});
  weir::wait_event(event);
  event.synchronize();
  weir::synchronize_event(event);
  EXPECT_TRUE(event.done());
  weir::Event recorded = stream.record();
  recorded.synchronize();
  stream.record(start);
  stream.record(end);
  stream.synchronize();
  EXPECT_GE(weir::elapsed(start, end).count(), 0);
  { weir::ScopedTimer timer(stream, "add"); }
}

TEST_F(ComingFrom, memory) {
  {
    auto x = weir::empty<float>(stream, n);
    x.free(stream);
    auto host = weir::empty<float>(weir::pinned, n);
    weir::Pool pool(device, {.max_size = 1 << 20});
    auto part = weir::empty<float>(stream, n, pool);
    EXPECT_GE(pool.statistics().used, n * sizeof(float));
    EXPECT_EQ(weir::zeros<float>(n).to_host(), std::vector<float>(n, 0));
    EXPECT_EQ(weir::from(stream, values).to_host(), values);
    EXPECT_EQ(weir::from(stream, {1.0f, 2.0f}).to_host(), (std::vector<float>{1, 2}));
    EXPECT_EQ(weir::from(stream, values, {2, 500}).shape(), weir::Shape(2, 500));
  }
  { weir::ScopedPin pinned(values); }
  weir::fill(stream, x, 0.0f);
  weir::copy(stream, host, x);
  stream.synchronize();
  EXPECT_EQ(host[0], 0);
  host[0] = 5;
  weir::copy(stream, x, host);
  stream.synchronize();
  weir::copy(stream, y.slice(0, 10), x.slice(10, 20));
  EXPECT_EQ(y.to_host(stream)[0], x.to_host(stream)[10]);
  EXPECT_NE(y.to_host(stream)[0], 5);
  weir::copy(y, x);
  EXPECT_EQ(y.to_host()[0], 5);
  EXPECT_EQ(x.to_host()[0], 5);
  float first = 0;
  weir::copy(stream, first, x.slice(0, 1));
  EXPECT_EQ(first, 5);
}

TEST_F(ComingFrom, work) {
  bool called = false;
  weir::launch(stream, n, Add{}, weir::in(x), weir::in(y), weir::out(z));
  weir::host_call(stream, [&] { called = true; });
  expect_sums();
  EXPECT_TRUE(called);
  weir::fill(stream, z, 0.0f);
  weir::launch(stream, {.size = n, .name = "add"}, Add{}, weir::in(x), weir::in(y), weir::out(z));
  expect_sums();
  weir::launch(stream, {.size = n, .block = 128}, Negate{}, weir::inout(z));
  EXPECT_EQ(z.to_host(), std::vector<float>(n, -3.0f));
  called = false;
  weir::host_call([&] { called = true; });
  weir::get_stream().synchronize();
  EXPECT_TRUE(called);
  auto sums = weir::zeros<float>(4);
  weir::launch_blocks({.blocks = 4, .threads = 256}, BlockSums{}, weir::in(x), weir::out(sums));
  EXPECT_EQ(sums.to_host(), (std::vector<float>{256, 256, 256, n - 3 * 256}));
  auto ticks = weir::zeros<std::int64_t>(1);
  weir::launch(1, Ticks{}, weir::out(ticks));
  EXPECT_GT(ticks.to_host()[0], 0);
  stream.synchronize();
  weir::launch(n, Add{}, weir::in(x), weir::in(y), weir::out(z));
  weir::reduce(stream, x, sum);
  EXPECT_EQ(sum.to_host()[0], n);
  weir::fill(stream, z, 0.0f);
  weir::launch(stream, n, Count{}, weir::inout(z));
  EXPECT_EQ(z.to_host()[0], n);
  const auto comm = weir::communicator(device);
  weir::all_reduce(stream, comm, weir::in(x), weir::out(z), weir::Plus{});
  weir::all_reduce(stream, comm, weir::inout(x), weir::Plus{});
  EXPECT_EQ(z.to_host(), x.to_host());
}

TEST_F(ComingFrom, algorithms) {
  auto count = weir::zeros<int>(stream, 1), bins = weir::zeros<int>(stream, 8);
  auto sums = weir::zeros<float>(stream, n);
  weir::exclusive_scan(stream, x, y);
  weir::sort_by_key(stream, x, y);
  EXPECT_EQ(y.to_host()[n - 1], n - 1);
  weir::inclusive_scan(stream, x, y);
  weir::select_if(stream, x, y, count, IsOne{});
  EXPECT_EQ(count.to_host()[0], n);
  weir::histogram(stream, x, bins, 0, 4);
  EXPECT_EQ(bins.to_host(), (std::vector<int>{0, 0, n, 0, 0, 0, 0, 0}));
  weir::reduce_by_key(stream, x, y, z, sums, count);
  EXPECT_EQ(sums.to_host()[0], n);
  weir::sort(stream, x);
  auto offsets = weir::from(stream, {0, 10, 100});
  auto two = weir::zeros<float>(stream, 2);
  weir::fill(stream, x, 1.0f);
  weir::reduce_segments(stream, x, offsets, two);
  EXPECT_EQ(two.to_host()[1], 90);
  weir::partition(stream, x, y, count, IsOne{});
  EXPECT_EQ(y.to_host()[n - 1], 1);
  weir::for_each(stream, x, Double{});
  weir::transform(stream, x, y, Twice{});
  EXPECT_EQ(y.to_host()[0], 4);
}

TEST_F(ComingFrom, processes) {
  weir::Pool shareable(device, {.shareable = true});
  const auto shared = weir::empty<float>(stream, n, shareable);
  stream.record(event);
  weir::ArrayHandle handle = weir::export_array(shared);
  weir::EventHandle mark = weir::export_event(event);
  // The exporter itself has them.
  EXPECT_THROW(static_cast<void>(weir::import_array<float>(stream, handle)), weir::Error);
  EXPECT_THROW(static_cast<void>(weir::import_event(device, mark)), weir::Error);
}

TEST_F(ComingFrom, graphs) {
  weir::Graph changed = add();
  const weir::Graph graph = add();
  graph.launch(stream);
  expect_sums();
  graph.launch();
  expect_sums();
  changed.update(graph);
  EXPECT_EQ(graph.clone().node_count(), 1u);
  weir::ScopedCapture recording(stream);
  weir::launch(n, Add{}, weir::in(x), weir::in(y), weir::out(z));
  EXPECT_EQ(recording.finish().node_count(), 1u);
  const weir::ScopedDevice here(device);
  weir::Graph zeroed = weir::capture([&] { weir::fill(z, 0.0f); });
  EXPECT_EQ(zeroed.node_count(), 1u);
  EXPECT_FALSE(weir::is_capturing(weir::get_stream(device)));
  expect_sums();  // nothing has run
  zeroed.launch();
  EXPECT_EQ(z.to_host(), std::vector<float>(n, 0.0f));
  auto go = weir::from(stream, {std::int32_t{1}});
  stream.synchronize();
  weir::Graph loop = weir::capture(stream, [&] {
    weir::capture_if(stream, go, [&] { weir::fill(z, 1.0f); });
    weir::capture_while(stream, go, [&] { weir::launch(1, Stop{}, weir::out(go)); });
  });
  loop.launch(stream);
  EXPECT_EQ(go.to_host()[0], 0);
  EXPECT_EQ(z.to_host(), std::vector<float>(n, 1.0f));
  weir::Graph chosen = weir::capture(stream, [&] {
    weir::capture_switch(
        stream, go, [&] { weir::fill(z, 2.0f); }, [&] { weir::fill(z, 3.0f); });
  });
  chosen.launch(stream);
  EXPECT_EQ(z.to_host(), std::vector<float>(n, 2.0f));
  weir::GraphBuilder builder(device);
  builder.capture([&](weir::StreamRef s) { weir::sort(s, x); });
  auto [memory, begin] = builder.allocate<float>(n);
  weir::GraphBuilder another(device);
  another.free(memory);
  EXPECT_EQ(another.build().node_count(), 1u);
}

TEST_F(ComingFrom, nodes_and_modes) {
  weir::capture_begin(stream, weir::CaptureMode::relaxed);
  EXPECT_TRUE(weir::is_capturing(stream));
  weir::fill(stream, z, 7.0f);
  weir::Graph relaxed = weir::capture_end(stream);
  relaxed.launch(stream);
  EXPECT_EQ(z.to_host(), std::vector<float>(n, 7.0f));
  weir::GraphBuilder builder(device);
  const auto before = builder.fill(z, 0.0f);
  const auto node = builder.launch(n, Add{}, weir::in(x), weir::in(y), weir::out(z));
  builder.depends(node, before);
  weir::Graph built = builder.build();
  built.update(node, weir::in(y), weir::in(x), weir::out(z));
  built.launch(stream);
  expect_sums();
  built.disable(node);
  built.launch(stream);
  EXPECT_EQ(z.to_host(), std::vector<float>(n, 0.0f));
  EXPECT_NE(weir::to_dot(built).find("Add"), std::string::npos);
}

}  // namespace
