// expect: for each operand and for the result
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  weir::exclusive_scan(stream, x);
}
