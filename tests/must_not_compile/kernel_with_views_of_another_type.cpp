// expect: an argument of this kernel has elements of another type than the weir::View that the kernel declares
// expect: weir::View<double
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] *= 2.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<double>(stream, 8);
  weir::launch(stream, 8, Scale{}, weir::inout(x));
}
