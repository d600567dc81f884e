// expect: algorithms take a weir::Array or Slice, as it is, for each operand and for the result
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  int sum = 0;
  weir::reduce(stream, x, sum);
}
