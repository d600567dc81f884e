// expect: weir::out takes a weir::Array, Slice or View: make an array, and copy it to a host range afterwards
#include <vector>

#include <weir/weir.hpp>

struct Clear {
  WEIR_KERNEL void operator()(std::size_t i, weir::View<float> x) const { x[i] = 0.0f; }
};

int main() {
  weir::Stream stream;
  std::vector<float> values(8);
  weir::launch(stream, 8, Clear{}, weir::out(values));
}
