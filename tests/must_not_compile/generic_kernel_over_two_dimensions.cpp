// expect: a kernel whose index is auto runs over one dimension: declare it weir::Index<R> for R dimensions
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, {4, 8});
  weir::launch(
      stream, {4, 8}, [](auto, auto) {}, weir::inout(x));
}
