// expect: weir::select_if and weir::partition count in integers
#include <weir/weir.hpp>

struct IsOdd {
  WEIR_KERNEL bool operator()(int x) const { return x % 2 != 0; }
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<int>(stream, 8), y = weir::zeros<int>(stream, 8);
  auto count = weir::zeros<float>(stream, 1);
  weir::select_if(stream, x, y, count, IsOdd{});
}
