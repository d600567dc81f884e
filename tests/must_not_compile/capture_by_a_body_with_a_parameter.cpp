// expect: weir::capture calls body(): what it does on the captured stream becomes the graph
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  auto graph = weir::capture(stream, [](weir::StreamRef) {});
}
