// expect: per-thread variables are trivially copyable
#include <string>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32},
                      [](weir::Block& block) { (void)block.each_own(std::string("a")); });
}
