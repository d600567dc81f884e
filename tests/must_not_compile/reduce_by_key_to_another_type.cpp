// expect: weir::reduce_by_key needs outputs of the keys' and the values' types
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto keys = weir::zeros<int>(stream, 8), unique = weir::zeros<int>(stream, 8), count = weir::zeros<int>(stream, 1);
  auto values = weir::zeros<float>(stream, 8);
  auto sums = weir::zeros<double>(stream, 8);
  weir::reduce_by_key(stream, keys, values, unique, sums, count);
}
