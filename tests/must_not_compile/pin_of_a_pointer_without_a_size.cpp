// expect: a pointer does not say how many bytes: weir::ScopedPin(pointer, bytes)
#include <weir/weir.hpp>

int main() {
  float* values = new float[8];
  weir::ScopedPin pin(values);
}
