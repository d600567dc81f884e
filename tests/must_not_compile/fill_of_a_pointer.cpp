// expect: a pointer does not say how many elements there are: weir::fill(stream
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  float* x = nullptr;
  weir::fill(stream, x, 1.0f);
}
