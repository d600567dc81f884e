// expect: an array was passed where this kernel declares no weir::View
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x, float a) const { x[i] *= a; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Scale{}, weir::inout(x), weir::in(x));
}
