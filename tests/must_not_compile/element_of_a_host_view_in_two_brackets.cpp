// expect: subscript
// not expect: instantiation of
#include <weir/weir.hpp>

int main() {
  weir::Array<float> m = weir::zeros<float>(weir::host, {4, 4});
  return m.host_view()[1][2] > 0;
}
