// expect: weir::accumulate needs a view that can be written
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::View<const float> x;
  weir::launch(
      stream, 8, [](std::size_t, auto) {}, weir::accumulate(x));
}
