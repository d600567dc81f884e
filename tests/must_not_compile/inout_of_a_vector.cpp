// expect: weir::inout takes a weir::Array, Slice or View
#include <vector>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  std::vector<float> x(8);
  weir::launch(
      stream, 8, [](std::size_t, auto) {}, weir::inout(x));
}
