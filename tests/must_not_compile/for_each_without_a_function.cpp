// expect: weir::for_each calls a function for each element: weir::for_each(stream, x, function)
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::for_each(stream, x);
}
