// expect: an array was passed where this kernel declares no weir::View
// expect: a value was passed where this kernel declares a weir::View
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<float> x) const { x[i] *= a; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Scale{}, weir::inout(x), 2.0f);
}
