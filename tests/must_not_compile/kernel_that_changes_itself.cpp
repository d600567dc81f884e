// expect: this kernel cannot be called as kernel(index, arguments...) const
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  int calls = 0;
  weir::launch(stream, 8, [calls](std::size_t) mutable { ++calls; });
}
