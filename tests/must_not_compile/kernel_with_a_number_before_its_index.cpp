// expect: the first parameter of a kernel is its index: std::size_t in one dimension, weir::Index<R> in R
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(float a, std::size_t i, weir::View<float> x) const { x[i] *= a; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Scale{}, 2.0f, weir::inout(x));
}
