// y = a * x + y on a device: arrays, one kernel, and the result back on the host.
#include <cstdio>
#include <vector>

#include <weir/weir.hpp>

// A kernel is a functor. It gets the index of one element first, then the arguments of the launch; arrays arrive as
// views.
struct Saxpy {
  WEIR_KERNEL void operator()(std::size_t i, float a, weir::View<const float> x, weir::View<float> y) const {
    y[i] += a * x[i];
  }
};

int main(int argc, char** argv) {
  const weir::Device device = argc > 1 ? weir::device(argv[1]) : weir::default_device();
  constexpr std::size_t n = 1'000'000;

  std::vector<float> numbers(n);
  for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(i % 100);

  // Commands of one stream run in the order in which they were issued, so nothing has to be waited for in between.
  weir::Stream stream(device);
  const auto x = weir::from(stream, numbers);
  auto y = weir::ones<float>(stream, n);
  weir::launch(stream, n, Saxpy{}, 2.0f, weir::in(x), weir::inout(y));

  // The launch has returned already, perhaps before the kernel began. Reading the array back waits for it.
  const std::vector<float> result = y.to_host();

  for (std::size_t i = 0; i < n; ++i) {
    if (result[i] != 2.0f * numbers[i] + 1.0f) {
      std::printf("y[%zu] is %g: wrong\n", i, result[i]);
      return 1;
    }
  }
  std::printf("%s: y = 2 x + y over %zu elements, y[3] = %g\n", device.name().c_str(), n, result[3]);
  return 0;
}
