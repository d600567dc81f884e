// expect: an array is not copied by =: x.clone(stream), std::move(x)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const auto x = weir::zeros<float>(stream, 8);
  weir::Array<float> y;
  y = x;
}
