// expect: weir::reduce needs an operator that can be called as op(a, b)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::reduce(stream, x, x, [](int a) { return a; });
}
