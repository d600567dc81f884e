// expect: a kernel is copied to its device: make the functor copyable, and pass arrays as arguments
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::launch(stream, 8, [x = std::move(x)](std::size_t) {});
}
