// expect: a body of a conditional node is called as body()
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto condition = weir::zeros<std::int32_t>(stream, 1);
  weir::capture_if(stream, condition, [](weir::StreamRef) {});
}
