// expect: weir::copy cannot write to a const destination
#include <vector>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const auto x = weir::zeros<float>(stream, 8);
  const std::vector<float> values(8);
  weir::copy(stream, values, x);
}
