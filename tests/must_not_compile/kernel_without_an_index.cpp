// expect: the first parameter of a kernel is its index: std::size_t in one dimension, weir::Index<R> in R
#include <weir/weir.hpp>

int main() {
  weir::Stream stream;
  weir::launch(stream, 8, [] {});
}
