// expect: a pointer does not say how many elements there are: weir::copy(stream, to
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 10);
  const float* values = nullptr;
  weir::copy(stream, x, values, x.bytes());
}
