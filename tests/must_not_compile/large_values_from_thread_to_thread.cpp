// expect: what threads of a block hand to each other has at most 256 bytes
#include <weir/weir.hpp>

struct Large {
  float values[100];
};

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32},
                      [](weir::Block& block) { (void)block.broadcast([](std::size_t) { return Large{}; }, 0); });
}
