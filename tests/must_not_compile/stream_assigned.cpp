// expect: deleted
#include <weir/weir.hpp>

int main() {
  weir::Stream a;
  weir::Stream b;
  b = a;
}
