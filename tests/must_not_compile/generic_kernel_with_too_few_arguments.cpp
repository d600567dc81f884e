// expect: this kernel cannot be called as kernel(index, arguments...) const
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, 8, [](auto, auto) {});
}
