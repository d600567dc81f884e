// expect: a kernel takes its index by value, not as a reference to change
#include <weir/weir.hpp>

int main() {
  weir::GraphBuilder builder(weir::default_device());
  const weir::Node node = builder.launch(8, [](std::size_t) {});
  weir::Graph graph = builder.build();
  graph.update(node, [](std::size_t& i) { ++i; });
}
