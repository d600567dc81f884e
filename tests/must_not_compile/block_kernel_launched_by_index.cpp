// expect: this kernel's first parameter is weir::Block: launch it with weir::launch_blocks
#include <weir/weir.hpp>

struct Clear {
  void operator()(weir::Block& block, weir::View<float> x) const { x[block.index()] = 0.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Clear{}, weir::out(x));
}
