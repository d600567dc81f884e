// expect: weir::launch needs a kernel behind the size: weir::launch(stream, n, kernel
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, 8);
}
