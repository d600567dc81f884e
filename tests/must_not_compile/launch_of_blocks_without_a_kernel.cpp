// expect: weir::launch_blocks needs a kernel behind the blocks
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 8, .threads = 64});
}
