// expect: weir::launch_blocks needs its blocks and their threads, before the kernel
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, 8, [](weir::Block&) {});
}
