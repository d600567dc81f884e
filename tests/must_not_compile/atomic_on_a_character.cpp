// expect: atomic operations work on one element, an integer of 32 or 64 bits
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<char>(stream, 8);
  weir::launch(
      stream, 8, [](std::size_t i, weir::View<char> v) { weir::atomic_add(v[i], 1); }, weir::inout(x));
}
