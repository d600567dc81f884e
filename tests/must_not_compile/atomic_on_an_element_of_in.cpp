// expect: atomic operations change the element
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8);
  weir::launch(
      stream, 8, [](std::size_t i, weir::View<const int> v) { weir::atomic_add(v[i], 1); }, weir::in(x));
}
