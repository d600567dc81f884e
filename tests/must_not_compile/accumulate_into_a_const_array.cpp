// expect: weir::accumulate needs an array that can be written
#include <weir/weir.hpp>

void add(weir::StreamRef stream, const weir::Slice<const int>& x) {
  weir::launch(
      stream, 8, [](std::size_t, auto) {}, weir::accumulate(x));
}

int main() {}
