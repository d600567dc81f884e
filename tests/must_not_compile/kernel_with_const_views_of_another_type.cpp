// expect: an argument of this kernel has elements of another type than the weir::View that the kernel declares
// expect: weir::View<const double
// not expect: passed with weir::in
#include <weir/weir.hpp>

struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};

int main() {
  weir::Stream stream;
  const auto x = weir::zeros<double>(stream, 8);
  weir::launch(stream, 8, Look{}, x);
}
