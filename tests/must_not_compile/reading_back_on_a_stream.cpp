// expect: weir::Array::to_host takes no stream
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto x = weir::zeros<float>(stream, 8);
  auto values = x.to_host(stream);
}
