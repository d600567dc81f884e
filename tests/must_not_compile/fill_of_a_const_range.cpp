// expect: weir::fill cannot write to a const destination
#include <vector>

#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  const std::vector<float> values(8);
  weir::fill(stream, values, 1.0f);
}
