// expect: weir::out needs a view that can be written
#include <weir/weir.hpp>

void write(weir::StreamRef stream, weir::View<const float> x) {
  weir::launch(
      stream, 8, [](std::size_t, auto) {}, weir::out(x));
}

int main() {}
