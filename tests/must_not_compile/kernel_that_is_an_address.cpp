// expect: a kernel is a functor, a lambda or a function
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  int variable = 0;
  weir::launch(stream, 8, &variable);
}
