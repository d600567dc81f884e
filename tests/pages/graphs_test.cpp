// The snippets of docs/graphs.md, each as that page has it: scripts/check_claims compares the two.
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <weir/weir.hpp>

namespace {

struct Saxpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};
struct CountDown {
  WEIR_KERNEL void operator()(std::size_t, weir::View<std::int32_t> turns) const { --turns[0]; }
};

constexpr std::size_t n = 1000;

struct PageOfGraphs : testing::Test {
  weir::Device device = weir::device("cpu");
  weir::Stream s{device}, side{device};
  weir::Array<float> x = weir::ones<float>(s, n), y = weir::zeros<float>(s, n), z = weir::zeros<float>(s, n);
  weir::Array<std::int32_t> turns = weir::zeros<std::int32_t>(s, 1), again = weir::zeros<std::int32_t>(s, 1),
                            choice = weir::zeros<std::int32_t>(s, 1);

  void SetUp() override { s.synchronize(); }
  /// Of x, y and z: what all elements are; -1 if they are not the same.
  std::vector<float> values() {
    std::vector<float> found;
    for (const auto* array : {&x, &y, &z}) {
      const std::vector<float> all = array->to_host();
      found.push_back(all == std::vector<float>(n, all[0]) ? all[0] : -1);
    }
    return found;
  }
  std::vector<float> after(const weir::Graph& graph) {
    graph.launch(s);
    return values();
  }
  void begin_again() {
    weir::fill(s, x, 1.0f);
    weir::fill(s, y, 0.0f);
    weir::fill(s, z, 0.0f);
    s.synchronize();
  }
};

using Values = std::vector<float>;

TEST_F(PageOfGraphs, captures) {
  weir::Graph graph = weir::capture(s, [&] {  // nothing runs yet
    side.wait(s);                             // side joins the capture
    weir::launch(s, {.size = n, .name = "left"}, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
    weir::launch(side, {.size = n, .name = "right"}, Saxpy{}, 3.0f, weir::in(x), weir::inout(z));
    s.wait(side);  // and is joined back
  });
  for (int i = 0; i < 10; ++i) graph.launch(s);
  EXPECT_EQ(values(), (Values{1, 20, 30}));
  EXPECT_TRUE(graph.node(graph.find("right")).depends.empty());

  weir::Graph relaxed = weir::capture(s, weir::CaptureMode::relaxed, [&] { weir::fill(z, 0.0f); });
  EXPECT_EQ(values(), (Values{1, 20, 30}));
  EXPECT_EQ(after(relaxed), (Values{1, 20, 0}));
}

TEST_F(PageOfGraphs, builders) {
  weir::GraphBuilder builder(device);
  const auto left = builder.launch(n, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
  const auto right = builder.launch(n, Saxpy{}, 3.0f, weir::in(x), weir::inout(z));
  const auto sum = builder.launch(n, Saxpy{}, 1.0f, weir::in(y), weir::inout(z));
  builder.depends(sum, {left, right});
  weir::Graph built = builder.build();
  EXPECT_EQ(after(built), (Values{1, 2, 5}));

  weir::GraphBuilder inferring(device, weir::Dependencies::inferred);
  inferring.launch(n, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
  inferring.launch(n, Saxpy{}, 3.0f, weir::in(x), weir::inout(z));
  inferring.launch(n, Saxpy{}, 1.0f, weir::in(y), weir::inout(z));  // behind both
  weir::Graph inferred = inferring.build();
  EXPECT_EQ(inferred.nodes()[2].depends.size(), 2u);
  begin_again();
  EXPECT_EQ(after(inferred), (Values{1, 2, 5}));

  weir::GraphBuilder whole(device);
  const auto child = whole.graph(built);
  const auto sorted = whole.capture([&](weir::StreamRef inner) { weir::sort(inner, z); });
  whole.depends(sorted, child);
  begin_again();
  EXPECT_EQ(after(whole.build()), (Values{1, 2, 5}));
}

TEST_F(PageOfGraphs, changes) {
  weir::Graph graph =
      weir::capture(s, [&] { weir::launch({.size = n, .name = "left"}, Saxpy{}, 2.0f, weir::in(x), weir::inout(y)); });
  weir::GraphBuilder builder(device);
  const auto left = builder.launch(n, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
  const auto right = builder.launch(n, Saxpy{}, 3.0f, weir::in(x), weir::inout(z));
  const auto sum = builder.launch(n, Saxpy{}, 1.0f, weir::in(y), weir::inout(z));
  builder.depends(sum, {left, right});
  weir::Graph built = builder.build();

  graph.update(graph.find("left"), Saxpy{}, 100.0f, weir::in(x), weir::inout(y));  // a node by its name
  built.update(left, 100.0f, weir::in(x), weir::inout(y));                         // a builder's node knows its kernel
  built.resize(sum, n / 2);  // the same kernel over fewer elements
  built.disable(right);      // what depends on it still waits for left
  EXPECT_EQ(after(graph), (Values{1, 100, 0}));
  begin_again();
  EXPECT_EQ(after(built), (Values{1, 100, -1}));
  std::vector<float> half(n);
  std::fill(half.begin(), half.begin() + n / 2, 100.0f);
  EXPECT_EQ(z.to_host(), half);

  weir::Graph other = graph.clone();
  other.update(other.find("left"), Saxpy{}, 5.0f, weir::in(x), weir::inout(y));
  graph.update(other);
  begin_again();
  EXPECT_EQ(after(graph), (Values{1, 5, 0}));
}

TEST_F(PageOfGraphs, conditions) {
  const auto set = [&](std::int32_t more, std::int32_t yes, std::int32_t which) {
    begin_again();
    weir::fill(s, turns, more);
    weir::fill(s, again, yes);
    weir::fill(s, choice, which);
  };
  weir::Graph loop = weir::capture(s, [&] {
    weir::capture_while(s, turns, [&] {  // while turns[0] is not 0
      weir::launch(s, n, Saxpy{}, 1.0f, weir::in(x), weir::inout(z));
      weir::launch(s, 1, CountDown{}, weir::inout(turns));
    });
    weir::capture_if(
        s, again, [&] { weir::fill(s, y, 1.0f); }, [&] { weir::fill(s, y, 2.0f); });
    weir::capture_switch(
        s, choice, [&] { weir::fill(s, x, 10.0f); }, [&] { weir::fill(s, x, 11.0f); });
  });
  weir::GraphBuilder control(device, weir::Dependencies::inferred);
  control.while_(turns, [&] {
    control.launch(n, Saxpy{}, 1.0f, weir::in(x), weir::inout(z));
    control.launch(1, CountDown{}, weir::inout(turns));
  });
  control.if_(
      again, [&] { control.fill(y, 1.0f); }, [&] { control.fill(y, 2.0f); });
  control.switch_(
      choice, [&] { control.fill(x, 10.0f); }, [&] { control.fill(x, 11.0f); });
  weir::Graph controlled = control.build();
  for (const weir::Graph* graph : {&loop, &controlled}) {
    set(3, 0, 0);
    EXPECT_EQ(after(*graph), (Values{10, 2, 3}));
    set(0, 1, 1);
    EXPECT_EQ(after(*graph), (Values{11, 1, 0}));
    set(1, -1, 2);
    EXPECT_EQ(after(*graph), (Values{1, 1, 1}));
  }
}

TEST_F(PageOfGraphs, memory) {
  weir::Graph scratched = weir::capture(s, [&] {
    auto scratch = weir::empty<float>(s, n);
    weir::copy(s, scratch, x);
    weir::launch(s, n, Saxpy{}, 2.0f, weir::in(scratch), weir::inout(y));
  });  // scratch ends here, in every replay
  EXPECT_EQ(after(scratched), (Values{1, 2, 0}));
  EXPECT_EQ(after(scratched), (Values{1, 4, 0}));

  weir::GraphBuilder make(device), take(device);
  auto [memory, begin] = make.allocate<float>(n);
  make.depends(make.fill(memory, 5.0f), begin);
  const auto copied = take.copy(y, memory);
  take.depends(take.free(memory), copied);
  const weir::Graph maker = make.build(), taker = take.build();
  maker.launch(s);
  taker.launch(s);
  EXPECT_EQ(values(), (Values{1, 5, 0}));
}

TEST_F(PageOfGraphs, looking_and_files) {
  weir::GraphBuilder builder(device);
  builder.launch({.size = n, .name = "left"}, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));
  weir::Graph graph = builder.build(), built = builder.build();
  std::vector<std::string> names;
  const std::string path = testing::TempDir() + "weir_page_of_graphs_" + std::to_string(getpid());

  for (const weir::NodeInfo& node : graph.nodes())
    names.push_back(node.name);                     // and kind, line, stream, what it depends on
  const std::string picture = weir::to_dot(graph);  // for Graphviz
  weir::register_kernel<Saxpy>("saxpy");            // in the process that saves, and in the one that loads
  weir::save(built, path, {{"y", y}});
  const weir::LoadedGraph loaded = weir::load_graph(path, device);
  loaded.graph.launch(s);
  const auto loaded_y = loaded.array<float>("y");
  EXPECT_EQ(names, std::vector<std::string>{"left"});
  EXPECT_NE(picture.find("left"), std::string::npos);
  EXPECT_EQ(loaded_y.to_host(), std::vector<float>(n, 2));
  EXPECT_EQ(values(), (Values{1, 0, 0}));
  std::remove(path.c_str());
}

}  // namespace
