// expect: weir::copy cannot write to a const destination
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const auto x = weir::zeros<float>(stream, 8);
  const auto y = weir::zeros<float>(stream, 8);
  weir::copy(weir::View<const float>(x.view<1>()), y);
}
