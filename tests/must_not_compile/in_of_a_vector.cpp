// expect: weir::in takes a weir::Array, Slice or View: make an array of a host range, as with weir::from
#include <vector>

#include <weir/weir.hpp>

struct Look {
  WEIR_KERNEL void operator()(std::size_t, weir::View<const float>) const {}
};

int main() {
  weir::Stream stream;
  std::vector<float> values(8);
  weir::launch(stream, 8, Look{}, weir::in(values));
}
