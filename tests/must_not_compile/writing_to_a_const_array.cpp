// expect: this kernel writes through an argument that was passed with weir::in
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] *= 2.0f; }
};

int main() {
  weir::Stream stream;
  const auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Scale{}, x);
}
