// expect: weir::exclusive_scan needs a result of the elements' type
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto y = weir::zeros<double>(stream, 8);
  weir::exclusive_scan(stream, x, y);
}
