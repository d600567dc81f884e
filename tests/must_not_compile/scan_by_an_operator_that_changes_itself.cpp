// expect: weir::inclusive_scan needs an operator that can be called as op(a, b), by a const call operator
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  int calls = 0;
  weir::inclusive_scan(stream, x, x, [calls](int a, int b) mutable { return a + b + ++calls; });
}
