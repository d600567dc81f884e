// expect: the stream comes first: weir::fill(stream, to, value)
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 10);
  weir::fill(x, 1.0f, stream);
}
