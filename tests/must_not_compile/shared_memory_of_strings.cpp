// expect: shared memory holds trivially copyable types
#include <string>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32}, [](weir::Block& block) { block.shared<std::string>(4); });
}
