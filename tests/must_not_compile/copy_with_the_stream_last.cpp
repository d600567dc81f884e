// expect: the stream comes first: weir::copy(stream, to, from)
#include <weir/weir.hpp>

#include <vector>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 10);
  const std::vector<float> values(10);
  weir::copy(x, values, stream);
}
