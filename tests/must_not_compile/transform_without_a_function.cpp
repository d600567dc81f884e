// expect: weir::transform calls a function for each element: weir::transform(stream, x, y, function)
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::transform(stream, x, x);
}
