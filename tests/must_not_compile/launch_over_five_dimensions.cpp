// expect: a launch has at most four dimensions
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, {2, 2, 2, 2, 2}, [](const weir::Index<4>&) {});
}
