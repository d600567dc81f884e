// expect: this kernel cannot be called as kernel(block, arguments...) const
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32}, [](weir::Block&, auto) {});
}
