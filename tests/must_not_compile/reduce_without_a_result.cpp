// expect: weir::reduce writes its result in stream order, to an array of one element
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 10);
  weir::reduce(stream, x);
}
