// expect: weir::for_each needs a function that can be called as f(x[i])
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::for_each(stream, x, [](int, int) {});
}
