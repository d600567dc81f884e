// expect: weir::reduce_by_key counts in integers
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto keys = weir::zeros<int>(stream, 8), unique = weir::zeros<int>(stream, 8);
  auto values = weir::zeros<float>(stream, 8), sums = weir::zeros<float>(stream, 8);
  auto count = weir::zeros<float>(stream, 1);
  weir::reduce_by_key(stream, keys, values, unique, sums, count);
}
