// expect: weir::select_if and weir::partition need an output of the elements' type
#include <weir/weir.hpp>

struct IsOne {
  WEIR_KERNEL bool operator()(float v) const { return v == 1; }
};
int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto y = weir::zeros<double>(stream, 8);
  auto count = weir::zeros<int>(stream, 1);
  weir::select_if(stream, x, y, count, IsOne{});
}
