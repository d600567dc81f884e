// expect: weir::reduce_segments needs offsets that are integers
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8), sums = weir::zeros<float>(stream, 2);
  auto offsets = weir::zeros<float>(stream, 3);
  weir::reduce_segments(stream, x, offsets, sums);
}
