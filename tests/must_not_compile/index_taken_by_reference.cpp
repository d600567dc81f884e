// expect: a kernel takes its index by value, not as a reference to change
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, 8, [](std::size_t& i) { ++i; });
}
