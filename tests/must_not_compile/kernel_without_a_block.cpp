// expect: the first parameter of a kernel for weir::launch_blocks is weir::Block&
#include <weir/weir.hpp>

struct Clear {
  void operator()(weir::View<float> x) const { x[0] = 0.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch_blocks(stream, {.blocks = 8, .threads = 1}, Clear{}, weir::out(x));
}
