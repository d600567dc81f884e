// expect: the first parameter of a kernel is its index: std::size_t in one dimension, weir::Index<R> in R
// not expect: passed with weir::in
#include <weir/weir.hpp>

struct Add {
  WEIR_KERNEL void operator()(weir::View<const float> x, weir::View<float> y, std::size_t i) const { y[i] += x[i]; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto y = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Add{}, weir::in(x), weir::inout(y));
}
