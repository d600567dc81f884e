// expect: weir::copy needs the same element type on both sides
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto y = weir::zeros<double>(stream, 8);
  weir::copy(stream, y, x);
}
