// expect: algorithms take a weir::Array or Slice, as it is, for each operand and for the result
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::transform(stream, weir::in(x), weir::out(x), [](int a) { return a; });
}
