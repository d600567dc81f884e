// expect: name the type of the elements: weir::zeros<float>(stream, n)
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros(stream, 8);
}
