// expect: the stream comes first: weir::launch(stream, n, kernel
#include <weir/weir.hpp>

struct Twice {
  void operator()(std::size_t i, weir::View<float> x) const { x[i] *= 2.0f; }
};

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(Twice{}, stream, 8, x);
}
