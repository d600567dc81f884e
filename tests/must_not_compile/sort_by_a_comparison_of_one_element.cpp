// expect: weir::sort needs a comparison that can be called as less(a, b)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::sort(stream, x, [](int a) { return a > 0; });
}
