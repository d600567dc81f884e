// expect: weir::GraphBuilder::switch_ needs at least one body
#include <weir/weir.hpp>

int main() {
  weir::GraphBuilder builder;
  auto selector = weir::zeros<std::int32_t>(weir::Stream(), 1);
  builder.switch_(selector);
}
