// expect: what threads of a block hand to each other is trivially copyable
#include <string>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32},
                      [](weir::Block& block) { block.reduce([](std::size_t) { return std::string("a"); }); });
}
