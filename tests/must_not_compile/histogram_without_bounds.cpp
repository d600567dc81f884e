// expect: weir::histogram needs the bounds of its bins
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto counts = weir::zeros<int>(stream, 4);
  weir::histogram(stream, x, counts);
}
