// expect: a kernel's call operator is const, for many threads share one kernel: a lambda is not mutable
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  int calls = 0;
  weir::launch(stream, 8, [calls](std::size_t) mutable { ++calls; });
}
