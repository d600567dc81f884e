// A program outside the project: adds two arrays on a stream and checks every element.
#include <cstddef>
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

struct Add {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<const float> x, weir::View<float> y) const { y[i] += x[i]; }
};

int main() {
  constexpr std::size_t n = 1000;
  weir::Stream stream(weir::device("cpu"));
  auto x = weir::full(stream, n, 2.0f);
  auto y = weir::full(stream, n, 40.0f);
  weir::launch(stream, n, Add{}, weir::in(x), weir::inout(y));
  const std::vector<float> sum = y.to_host();
  for (float value : sum) {
    if (value != 42.0f) return 1;
  }
  std::printf("%zu elements, each 42\n", sum.size());
  return sum.size() == n ? 0 : 1;
}
