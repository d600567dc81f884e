// expect: an argument of this kernel has another number of dimensions than the weir::View that the kernel declares
#include <weir/weir.hpp>

struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, {4, 8});
  weir::launch(stream, 8, Look{}, x.view<2>());
}
