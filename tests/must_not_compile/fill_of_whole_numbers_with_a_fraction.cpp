// expect: weir::fill would cut a floating-point value off to a whole number: convert it yourself
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::fill(stream, x, 3.7);
}
