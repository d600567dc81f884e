// expect: weir::reduce needs a result of the elements' type
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto sum = weir::zeros<double>(stream, 1);
  weir::reduce(stream, x, sum);
}
