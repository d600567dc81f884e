// expect: pass arrays to kernels as weir::in(x), weir::out(x) or weir::inout(x); a const array alone means in
#include <weir/weir.hpp>

struct Scale {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] *= 2.0f; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, Scale{}, x);
}
