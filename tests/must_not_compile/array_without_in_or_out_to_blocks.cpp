// expect: pass arrays to kernels as weir::in(x), weir::out(x) or weir::inout(x); a const array alone means in
#include <weir/weir.hpp>

struct Clear {
  void operator()(weir::Block& block, weir::View<float> x) const { x[block.index()] = 0.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch_blocks(stream, {.blocks = 8, .threads = 1}, Clear{}, x);
}
