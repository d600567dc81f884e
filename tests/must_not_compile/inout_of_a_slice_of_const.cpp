// expect: weir::inout needs an array that can be written
#include <weir/weir.hpp>

void write(weir::StreamRef stream, const weir::Slice<const float>& x) {
  weir::launch(
      stream, 8, [](std::size_t, auto) {}, weir::inout(x));
}

int main() {}
