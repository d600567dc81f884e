// expect: blocks and their threads have 1 to 3 dimensions
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32}, [](weir::Block& block) { (void)block.index<4>(); });
}
