// expect: weir::fill needs a value of the array's element type
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::fill(x, "one");
}
