// expect: weir::launch needs how many elements there are, before the kernel
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, [](std::size_t) {});
}
