// expect: a kernel for weir::launch_blocks takes its block as weir::Block&: the block is no value
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32}, [](weir::Block) {});
}
