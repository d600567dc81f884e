// expect: whether a weir::Stream's work is done: stream.done()
#include <weir/weir.hpp>

int main() {
  const weir::Stream stream;
  return stream.query() ? 0 : 1;
}
