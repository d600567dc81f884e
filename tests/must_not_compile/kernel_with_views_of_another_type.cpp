// expect: this kernel cannot be called as kernel(index, arguments...) const
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] *= 2.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<double>(stream, 8);
  weir::launch(stream, 8, Scale{}, weir::inout(x));
}
