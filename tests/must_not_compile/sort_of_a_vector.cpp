// expect: algorithms take a weir::Array or Slice, as it is, for each operand and for the result
#include <weir/weir.hpp>

#include <vector>

int main() {
  weir::Stream stream;
  std::vector<int> values(8);
  weir::sort(stream, values);
}
