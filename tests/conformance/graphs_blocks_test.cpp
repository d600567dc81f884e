// Nodes of launch_blocks: updated like those of launch, and the user's line in what is built by hand.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/any_device.hpp"
#include "support/errors.hpp"

namespace {

using namespace weir_test;
using weir::Errc;

class GraphsBlocks : public AnyDevice {};

struct AddInBlocks {
  int term;
  WEIR_KERNEL void operator()(weir::Block& block, weir::View<int> x) const {
    block.each([&](std::size_t thread) {
      const std::size_t i = block.index() * block.threads() + thread;
      if (i < x.size()) x[i] += term;
    });
  }
};
struct SetInBlocks {
  template <class V>
  WEIR_KERNEL void operator()(weir::Block& block, V x, int value) const {
    block.each([&](std::size_t thread) { x[block.index() * block.threads() + thread] = value; });
  }
};
struct AddAThousand {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<int> x) const { x[i] += 1000; }
};

std::vector<int> values(const std::string& digits) {
  std::vector<int> all;
  for (const char digit : digits) all.push_back(digit - '0');
  return all;
}

TEST_P(GraphsBlocks, GetNewArgumentsAlone) {
  const weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4), y = weir::zeros<int>(s, 4);
  s.synchronize();
  weir::GraphBuilder builder(device());
  const auto node = builder.launch_blocks({.blocks = 2, .threads = 2}, AddInBlocks{1}, weir::inout(x));
  weir::Graph graph = builder.build();
  graph.launch(s);
  graph.update(node, weir::inout(y));
  graph.launch(s);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), values("1111"));
  EXPECT_EQ(y.to_host(), values("2222"));
}

TEST_P(GraphsBlocks, GetAnotherKernelByAnyHandle) {
  const weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4), y = weir::zeros<int>(s, 4);
  s.synchronize();
  weir::Graph graph = weir::capture(s, [&] {
    weir::launch_blocks(s, {.blocks = 2, .threads = 2, .name = "blocks"}, AddInBlocks{1}, weir::inout(x));
  });
  graph.launch(s);
  graph.update(graph.find("blocks"), AddInBlocks{3}, weir::inout(y));
  graph.launch(s);
  graph.update(graph.find("blocks"), SetInBlocks{}, weir::out(x), 7);
  graph.launch(s);
  EXPECT_EQ(x.to_host(), values("7777"));
  EXPECT_EQ(y.to_host(), values("3333"));
}

TEST_P(GraphsBlocks, GetAnotherExtent) {
  const weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4);
  s.synchronize();
  weir::GraphBuilder builder(device());
  const auto node = builder.launch_blocks(weir::BlockExtent{.blocks = 1, .threads = 1}, AddInBlocks{1}, weir::inout(x));
  weir::Graph graph = builder.build();
  graph.launch(s);
  graph.update(node, {.blocks = 1, .threads = 2}, AddInBlocks{1}, weir::inout(x));
  graph.launch(s);
  const weir::BlockExtent all{.blocks = 4, .threads = 1};
  graph.update(node, all, AddInBlocks{1}, weir::inout(x));
  graph.launch(s);
  EXPECT_EQ(x.to_host(), values("3211"));
}

TEST_P(GraphsBlocks, AreNoPlaceForAKernelByIndexNorTheOtherWayRound) {
  const weir::Stream s(device());
  auto x = weir::zeros<int>(s, 4);
  s.synchronize();
  weir::GraphBuilder builder(device());
  const auto blocks = builder.launch_blocks({.blocks = 4, .threads = 1}, AddInBlocks{1}, weir::inout(x));
  const auto line = builder.launch(4, AddAThousand{}, weir::inout(x));
  builder.depends(line, blocks);
  weir::Graph graph = builder.build();
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { graph.update(blocks, AddAThousand{}, weir::inout(x)); },
                         {"weir::Graph::update", "blocks"}));
  EXPECT_TRUE(fails_with(Errc::invalid_value, [&] { graph.update(line, AddInBlocks{1}, weir::inout(x)); },
                         {"weir::Graph::update", "blocks"}));
  EXPECT_TRUE(fails_with(Errc::wrong_shape,
                         [&] {
                           graph.update(blocks, weir::inout(weir::empty<int>(s, {2, 2})));
                         },
                         {"argument 1"}));
  graph.launch(s);
  EXPECT_EQ(x.to_host(), std::vector<int>(4, 1001));
}

/// The line that an error names is this file's, and the given one.
testing::AssertionResult names_line(const weir::Error& error, std::uint32_t line) {
  const std::string_view file(error.where().file_name());
  if (file.ends_with("graphs_blocks_test.cpp") && error.where().line() == line) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "line " << line << " is not named: " << error.what();
}

TEST_P(GraphsBlocks, NameTheUsersLineWhenTheyAreBuilt) {
  const weir::Stream s(device());
  const auto x = weir::zeros<int>(s, 4);
  const auto selector = weir::zeros<std::int32_t>(s, 1);
  s.synchronize();
  weir::GraphBuilder builder(device());
  const weir::BlockExtent one{.blocks = 1, .threads = 1};
  const std::uint32_t line = __LINE__;
  builder.launch_blocks(one, AddInBlocks{1}, weir::inout(x));
  builder.launch_blocks({.blocks = 1, .threads = 1}, AddInBlocks{1}, weir::inout(x));
  builder.switch_(selector, [] {});
  builder.host_call([] {}, weir::in(x));
  std::uint32_t at = line;
  for (const weir::NodeInfo& node : builder.build().nodes()) EXPECT_EQ(node.where.line(), ++at) << node.name;
  const auto error =
      error_of([&] { builder.launch_blocks({.blocks = 0, .threads = 1}, AddInBlocks{1}, weir::inout(x)); });
  ASSERT_TRUE(error);
  EXPECT_TRUE(names_line(*error, __LINE__ - 2));
  const auto unselected = error_of([&] { builder.switch_(selector.slice(0, 0), [] {}); });
  ASSERT_TRUE(unselected);
  EXPECT_TRUE(names_line(*unselected, __LINE__ - 2));
}

TEST_P(GraphsBlocks, NameTheCallAndTheUsersLineWhenTheyFail) {
  if (!on("cpu")) GTEST_SKIP() << "a kernel that throws is the CPU's";
  const weir::Stream s(device());
  weir::GraphBuilder builder(device());
  const auto fail = weir::host_only([](weir::Block&) { throw 1; });
  builder.launch_blocks({.blocks = 1, .threads = 1}, fail);
  const std::uint32_t line = __LINE__ - 1;
  const weir::Graph graph = builder.build();
  graph.launch(s);
  const auto replayed = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(replayed);
  EXPECT_EQ(replayed->operation(), "weir::launch_blocks");
  EXPECT_TRUE(names_line(*replayed, line));
  weir::launch_blocks(s, {.blocks = 1, .threads = 1}, fail);
  const auto launched = error_of([&] { s.synchronize(); });
  ASSERT_TRUE(launched);
  EXPECT_EQ(launched->operation(), "weir::launch_blocks");
  EXPECT_TRUE(names_line(*launched, __LINE__ - 4));
}

}  // namespace

ON_EVERY_DEVICE(GraphsBlocks);
