// expect: weir::Graph::update takes, after the node, arguments that the node's kernel can be called with
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::GraphBuilder builder;
  const auto node = builder.launch(
      8, [](std::size_t i, weir::View<int> v) { v[i] = 1; }, weir::inout(x));
  weir::Graph graph = builder.build();
  graph.update(node, 3, 4, 5);
}
