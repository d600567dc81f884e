// expect: DLPack has no such element type
#include <weir/dlpack.hpp>
#include <weir/weir.hpp>

struct Pair {
  float first, second;
};

int main() {
  weir::Stream stream;
  auto x = weir::zeros<Pair>(stream, 8);
  (void)weir::to_dlpack(x);
}
