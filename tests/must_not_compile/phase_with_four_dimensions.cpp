// expect: a phase, or a function of the thread, takes std::size_t, weir::Index<2> or weir::Index<3>
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch_blocks(stream, {.blocks = 1, .threads = 32},
                      [](weir::Block& block) { block.each([](weir::Index<4>) {}); });
}
