// expect: this kernel's first parameter is an index: launch it with weir::launch
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32}, [](std::size_t) {});
}
