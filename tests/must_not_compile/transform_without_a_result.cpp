// expect: weir::transform needs a function that can be called as y[i] = f(x[i])
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::transform(stream, x, x, [](int) {});
}
