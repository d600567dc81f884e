// expect: calls of a weir::GraphBuilder take no stream
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  weir::GraphBuilder builder;
  builder.launch(stream, 10, [](std::size_t) {});
}
