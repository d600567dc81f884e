// expect: this kernel writes through an argument that was passed with weir::in
#include <weir/weir.hpp>

struct Clear {
  void operator()(weir::Block& block, weir::View<float> x) const { x[block.index()] = 0.0f; }
};

int main() {
  weir::Stream stream;
  const auto x = weir::zeros<float>(stream, 8);
  weir::launch_blocks(stream, {.blocks = 8, .threads = 1}, Clear{}, weir::in(x));
}
