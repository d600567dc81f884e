// expect: a body of a conditional node is called as body(builder) or as body()
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto condition = weir::zeros<std::int32_t>(stream, 1);
  weir::GraphBuilder builder;
  builder.if_(condition, [](weir::StreamRef) {});
}
