// expect: a condition of a graph is a weir::Array<std::int32_t>, whose element 0 is read when a replay gets there
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto again = weir::zeros<bool>(stream, 1);
  weir::GraphBuilder builder;
  builder.while_(again, [] {});
}
