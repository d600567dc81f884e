// expect: weir::reduce_segments needs a result of the elements' type
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto sums = weir::zeros<double>(stream, 2);
  auto offsets = weir::zeros<int>(stream, 3);
  weir::reduce_segments(stream, x, offsets, sums);
}
