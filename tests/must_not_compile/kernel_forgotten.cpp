// expect: a kernel comes before its arguments: a functor or lambda, after the extent
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, weir::inout(x));
}
