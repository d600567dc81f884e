// expect: weir::histogram counts in integers
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto counts = weir::zeros<float>(stream, 4);
  weir::histogram(stream, x, counts, 0, 1);
}
