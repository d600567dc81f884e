// expect: this kernel takes more arguments than were passed
#include <weir/weir.hpp>

struct Axpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Axpy{}, 2.0f, weir::in(x));
}
