// expect: an argument of this kernel has elements of another type than the weir::View that the kernel declares
#include <weir/weir.hpp>

struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto y = weir::zeros<double>(stream, 8);
  weir::GraphBuilder builder;
  const auto node = builder.launch(8, Look{}, weir::in(x));
  weir::Graph graph = builder.build();
  graph.update(node, weir::in(y));
}
