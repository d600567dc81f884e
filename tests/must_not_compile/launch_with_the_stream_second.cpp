// expect: the stream comes first: weir::launch(stream, n, kernel
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(8, stream, [](std::size_t) {});
}
