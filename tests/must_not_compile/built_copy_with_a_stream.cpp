// expect: calls of a weir::GraphBuilder take no stream
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  auto x = weir::zeros<float>(stream, 10);
  auto y = weir::zeros<float>(stream, 10);
  weir::GraphBuilder builder;
  builder.copy(stream, x, y);
}
