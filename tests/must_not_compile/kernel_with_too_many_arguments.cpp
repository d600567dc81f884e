// expect: this kernel takes fewer arguments than were passed
#include <weir/weir.hpp>

struct Clear {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] = 0.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Clear{}, weir::out(x), 2.0f);
}
